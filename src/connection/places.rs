//! Where the command line and the environment lead: to one place, or by way of a template to many.

use super::conninfo::Parameters;
use super::sources;
use super::template::Subject;
use crate::cli::ConnectionArgs;
use crate::key::Lock;

/// All parameters, from every source; equal ones lead to the same place. Passwords have no way into any output:
/// there is no Debug.
#[derive(PartialEq, Eq)]
pub struct Place(pub(super) Parameters);

impl Place {
    /// Where this lock lives.
    pub fn of_lock(args: &ConnectionArgs, lock: &Lock) -> anyhow::Result<Self> {
        let namespace = lock
            .name
            .as_ref()
            .and_then(|name| name.namespace.as_deref());
        let subject = Subject {
            namespace,
            number: lock.number(),
        };
        sources::gather(args, subject).map(Self)
    }

    /// Wherever a lock in this namespace may live: each place once, in the order of the shards' numbers.
    pub fn all(args: &ConnectionArgs, namespace: Option<&str>) -> anyhow::Result<Vec<Self>> {
        let mut places = Vec::new();
        for number in 0..sources::period(args)? {
            let place = Self(sources::gather(args, Subject { namespace, number })?);
            // Another source may win over all that the shards would change.
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// Whether the two differ in nothing but the database.
    pub fn is_on_the_server_of(&self, other: &Self) -> bool {
        let server = |place: &Self| {
            let mut parameters = place.0.clone();
            parameters.remove("dbname");
            parameters
        };
        server(self) == server(other)
    }
}

/// Puts together what belongs together by its place, in the order of the first of each.
pub fn group<T>(
    items: impl IntoIterator<Item = (Place, T)>,
    is_together: impl Fn(&Place, &Place) -> bool,
) -> Vec<(Place, Vec<T>)> {
    let mut groups: Vec<(Place, Vec<T>)> = Vec::new();
    for (place, item) in items {
        match groups
            .iter_mut()
            .find(|(known, _)| is_together(known, &place))
        {
            Some((_, items)) => items.push(item),
            None => groups.push((place, vec![item])),
        }
    }
    groups
}
