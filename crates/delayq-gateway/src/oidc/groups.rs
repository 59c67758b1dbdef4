//! The rights of people, by their groups at the provider.

use super::refusal::{LoginRefusal, Reason};
use crate::rights::Rights;
use crate::tenant::Tenant;
use std::collections::BTreeMap;

/// The groups that have rights, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, (Rights, Option<Tenant>)>);

// === impl Groups ===

impl Groups {
    pub(super) fn new(groups: BTreeMap<String, (Rights, Option<Tenant>)>) -> Self {
        Self(groups)
    }

    /// The groups of the person that have rights.
    pub(super) fn known(&self, groups: Vec<String>) -> Vec<String> {
        groups.into_iter().filter(|group| self.0.contains_key(group)).collect()
    }

    /// All rights of the groups together. Groups without a tenant decide, if there are any: the rights inside a tenant are no
    /// rights to the whole deployment.
    ///
    /// # Errors
    /// No group has rights, or the groups are of several tenants.
    pub(crate) fn rights(&self, groups: &[String]) -> Result<(Rights, Option<Tenant>), LoginRefusal> {
        let known: Vec<_> = groups.iter().filter_map(|group| self.0.get(group)).collect();
        let refused = |reason, detail: String| Err(LoginRefusal::new(reason, detail));
        let mut tenants: Vec<_> = known.iter().filter_map(|(_, tenant)| tenant.as_ref()).collect();
        tenants.sort();
        tenants.dedup();
        let is_whole = known.iter().any(|(_, tenant)| tenant.is_none());
        let of = |tenant: Option<&Tenant>| {
            let of_tenant = known.iter().filter(|(_, of)| of.as_ref() == tenant).map(|(rights, _)| *rights);
            of_tenant.fold(Rights::NONE, Rights::with)
        };
        match tenants.as_slice() {
            [] if !is_whole => refused(Reason::Group, "none of the person's groups has rights".to_owned()),
            _ if is_whole => Ok((of(None), None)),
            [one] => Ok((of(Some(one)), Some((*one).clone()))),
            many => {
                let names: Vec<_> = many.iter().map(|tenant| tenant.name()).collect();
                refused(
                    Reason::Tenants,
                    format!("the person's groups are of several tenants: {}", names.join(", ")),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Right;

    #[test]
    fn rights_add_up_and_those_inside_a_tenant_are_none_outside() {
        let group = |name: &str, rights: &[Right], tenant: Option<&str>| {
            let tenant = tenant.map(|tenant| tenant.parse().unwrap());
            (name.to_owned(), (rights.iter().copied().collect(), tenant))
        };
        let groups = Groups::new(BTreeMap::from([
            group("desk", &[Right::Read], None),
            group("ops", &[Right::Act], None),
            group("acme", &[Right::Read, Right::Manage], Some("acme")),
            group("acme-put", &[Right::Put], Some("acme")),
            group("globex", &[Right::Read], Some("globex")),
        ]));
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let rights = groups.rights(&names).map(|(rights, tenant)| {
                (rights.words().join(" "), tenant.map(|tenant| tenant.name().to_owned()))
            });
            rights.map_err(|refusal| refusal.reason)
        };
        assert_eq!(of(&["desk", "ops", "nobody"]), Ok(("read act".to_owned(), None)));
        let acme = Some("acme".to_owned());
        assert_eq!(of(&["acme", "acme-put"]), Ok(("read put manage".to_owned(), acme)));
        assert_eq!(of(&["acme", "desk"]), Ok(("read".to_owned(), None)), "a tenant's rights stay inside");
        assert_eq!(of(&["acme", "globex"]), Err(Reason::Tenants));
        assert_eq!((of(&[]), of(&["nobody"])), (Err(Reason::Group), Err(Reason::Group)));
    }
}
