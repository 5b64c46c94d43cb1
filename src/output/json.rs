//! `list --json`: one array, one object a line.

use crate::inventory::LockView;

pub fn render(views: &[LockView]) -> anyhow::Result<String> {
    let objects = views
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(if objects.is_empty() {
        "[]\n".to_owned()
    } else {
        format!("[{}]\n", objects.join(",\n "))
    })
}
