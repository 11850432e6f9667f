//! Whose metrics they are: the resource attributes of the fleet's series, which stay the same
//! after a restart, and of the program's own.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use uuid::Uuid;

const NAME: &str = "service.name";
const VERSION: &str = "service.version";
const INSTANCE: &str = "service.instance.id";
const CLUSTER: &str = "k8s.cluster.name";

/// The resource attributes of both kinds of series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Of the fleet's series: `service.instance.id` is the deployment's, the same after a restart
    /// or a change of leader, so that a series goes on.
    pub fleet: BTreeMap<String, String>,
    /// Of the program's own series: `service.instance.id` is this process's.
    pub own: BTreeMap<String, String>,
}

impl Identity {
    /// Builds both from what is known. `cloud` holds attributes that were detected (`cloud.*`,
    /// `k8s.*`), `configured` those of the configuration and `OTEL_RESOURCE_ATTRIBUTES`, which come
    /// before all others. A configured `service.instance.id` names the process: it usually holds
    /// the pod's name, which would end the fleet's series at each restart.
    #[must_use]
    pub fn new(
        deployment: &str,
        process: &str,
        cluster: Option<&str>,
        cloud: &BTreeMap<String, String>,
        configured: &BTreeMap<String, String>,
    ) -> Self {
        let mut common = cloud.clone();
        common.insert(NAME.into(), "megamon".into());
        common.insert(VERSION.into(), env!("CARGO_PKG_VERSION").into());
        if let Some(cluster) = cluster {
            common.insert(CLUSTER.into(), cluster.into());
        }
        common.extend(configured.clone());
        let mut fleet = common.clone();
        fleet.insert(INSTANCE.into(), deployment.into());
        let mut own = common;
        own.entry(INSTANCE.into()).or_insert_with(|| process.into());
        Self { fleet, own }
    }
}

/// A stable `service.instance.id` for a deployment from what names it, such as the cluster's UID,
/// namespace and name of the deployment: the same parts give the same id.
#[must_use]
pub fn deployment_id(parts: &[&str]) -> String {
    // A separator that no Kubernetes name holds keeps ("a", "bc") and ("ab", "c") apart.
    Uuid::new_v5(&Uuid::NAMESPACE_URL, parts.join("\n").as_bytes()).to_string()
}

/// The wire form of a set of resource attributes.
pub(super) fn resource(attributes: &BTreeMap<String, String>) -> Resource {
    Resource {
        attributes: attributes
            .iter()
            .map(|(key, value)| KeyValue {
                key: key.clone(),
                value: Some(AnyValue {
                    value: Some(any_value::Value::StringValue(value.clone())),
                }),
                ..KeyValue::default()
            })
            .collect(),
        ..Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn configured_attributes_come_first_and_the_fleet_keeps_its_instance() {
        let identity = Identity::new(
            "deployment",
            "process",
            Some("east"),
            &map(&[("cloud.provider", "gcp"), ("k8s.cluster.name", "guess")]),
            &map(&[("service.name", "mine"), ("service.instance.id", "pod-1")]),
        );
        assert_eq!(identity.fleet["service.name"], "mine");
        assert_eq!(identity.fleet["k8s.cluster.name"], "east");
        assert_eq!(identity.fleet["cloud.provider"], "gcp");
        assert_eq!(identity.fleet["service.instance.id"], "deployment");
        assert_eq!(identity.own["service.instance.id"], "pod-1");
        assert_eq!(identity.own["service.version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn without_configuration_own_series_are_the_process() {
        let identity = Identity::new("d", "p", None, &map(&[]), &map(&[]));
        assert_eq!(identity.own["service.instance.id"], "p");
        assert_eq!(identity.fleet["service.instance.id"], "d");
        assert!(!identity.fleet.contains_key("k8s.cluster.name"));
    }

    #[test]
    fn a_deployment_id_is_stable_and_tells_deployments_apart() {
        assert_eq!(deployment_id(&["a", "b"]), deployment_id(&["a", "b"]));
        assert_ne!(deployment_id(&["a", "bc"]), deployment_id(&["ab", "c"]));
    }
}
