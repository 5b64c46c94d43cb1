//! What `list --json` gives is what schema/list.schema.json says.

use std::fs;

use serde_json::{Value, json};

use crate::list::{database, held_by_pglock, holding, list, parsed};
use crate::support::{Pglock, Server, Waiter, until};

#[test]
fn the_json_of_list_is_what_the_schema_says() {
    let server = Server::shared();
    let database = database();
    let _named = held_by_pglock(&database, None, "nightly \"é\"");
    let _spaced = held_by_pglock(&database, Some("billing"), "nightly");
    let _foreign = holding(
        &database,
        "pg_advisory_lock(42), pg_advisory_lock_shared(-1, 5)",
    );
    let _blocked = Waiter::start(server, &database, "pg_advisory_lock(42)");
    let _waiting = Pglock::new(server)
        .env("PGDATABASE", &database)
        .args(["run", "nightly \"é\"", "true"])
        .spawn();
    let mut prepared = server.client_as(&database, "postgres");
    let transaction = format!("of {database}");
    prepared
        .batch_execute(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(7); PREPARE TRANSACTION '{transaction}'"
        ))
        .unwrap();
    let nobody = server.role("NOSUPERUSER");
    for options in [&["--json"][..], &["--json", "-U", &nobody]] {
        let views = until("all seven of them", || {
            let views = parsed(&list(&database, options).run());
            (views.len() == 7).then_some(views)
        });
        assert_eq!(violations(&Value::Array(views)), [""; 0]);
    }
    let rolled_back = prepared.batch_execute(&format!("ROLLBACK PREPARED '{transaction}'"));
    rolled_back.unwrap();
    assert_eq!(violations(&json!([])), [""; 0]);
}

#[test]
fn the_schema_refuses_what_is_no_output_of_list() {
    let database = database();
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    let [good] = parsed(&list(&database, &["--json"]).run())
        .try_into()
        .unwrap();
    for (key, bad) in [
        ("key", json!(42)),
        ("state", json!("free")),
        ("pid", json!("12")),
        ("pid", json!(1.5)),
        ("since", json!("yesterday")),
        ("seconds", json!(-1)),
        ("blocked_by", json!(["12"])),
        ("further", json!(1)),
    ] {
        let mut view = good.clone();
        view[key] = bad;
        assert_ne!(violations(&json!([view])), [""; 0], "{key}");
    }
    let mut view = good;
    view.as_object_mut().unwrap().remove("mode");
    assert_ne!(violations(&json!([view])), [""; 0]);
}

/// What of this the schema forbids.
fn violations(instance: &Value) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/list.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut found = Vec::new();
    check(&schema, instance, "", &mut found);
    found
}

/// As much of JSON Schema, draft 2020-12, as that file uses; another keyword fails the test.
fn check(schema: &Value, instance: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "type" => types(wanted).any(|name| is_of_type(instance, name)),
            "enum" => wanted.as_array().unwrap().contains(instance),
            "minimum" => instance
                .as_f64()
                .is_none_or(|it| it >= wanted.as_f64().unwrap()),
            "format" => {
                assert_eq!(wanted, "date-time");
                let text = instance.as_str();
                text.is_none_or(|text| humantime::parse_rfc3339(text).is_ok())
            }
            "items" => {
                for (index, item) in instance.as_array().into_iter().flatten().enumerate() {
                    check(wanted, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "properties" => {
                for (key, schema) in wanted.as_object().unwrap() {
                    if let Some(value) = instance.get(key) {
                        check(schema, value, &format!("{at}/{key}"), found);
                    }
                }
                true
            }
            "required" => types(wanted).all(|key| instance.get(key).is_some()),
            "additionalProperties" => {
                assert_eq!(wanted, false);
                let known = schema["properties"].as_object().unwrap();
                let mut keys = instance.as_object().into_iter().flatten();
                keys.all(|(key, _)| known.contains_key(key))
            }
            other => panic!("{other} is not looked at here"),
        };
        if !holds {
            found.push(format!("{at}: {keyword} {wanted}: {instance}"));
        }
    }
}

/// One name or several.
fn types(names: &Value) -> impl Iterator<Item = &str> {
    let several = names.as_array().into_iter().flatten();
    several
        .chain(names.is_string().then_some(names))
        .filter_map(Value::as_str)
}

fn is_of_type(instance: &Value, name: &str) -> bool {
    match name {
        "null" => instance.is_null(),
        "boolean" => instance.is_boolean(),
        "integer" => instance.is_i64() || instance.is_u64(),
        "number" => instance.is_number(),
        "string" => instance.is_string(),
        "array" => instance.is_array(),
        "object" => instance.is_object(),
        other => panic!("no type: {other}"),
    }
}
