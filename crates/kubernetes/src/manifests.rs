//! What a cluster needs before an operator runs in it: the definition of the resource, an account,
//! exactly the rights that the operator uses, and who may talk to pods of services.

use crate::pod::{LABEL_MANAGED, LABEL_NETWORK, MANAGED};
use crate::resource::Network;
use kube::CustomResourceExt;
use serde_json::{Value, json};

/// Port at which agents reach the operator unless another one is given.
const AGENTS_PORT: u16 = 6366;
/// Name of the operator's account, rights and lease.
pub const OPERATOR: &str = "namewire-operator";

/// Rights to one kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Resource, with its subresource: `pods/log`.
    pub resource: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
}

/// Rights in each namespace with networks.
const RULES: [Rule; 6] = [
    // Server-side apply of one that does not exist asks for `create` as well.
    Rule { group: "", resource: "pods", verbs: &["create", "delete", "get", "list", "patch"] },
    Rule { group: "", resource: "pods/log", verbs: &["get"] },
    Rule { group: "", resource: "pods/resize", verbs: &["patch"] },
    Rule { group: "", resource: "secrets", verbs: &["create", "delete", "patch"] },
    Rule { group: "namewire.dev", resource: "networks", verbs: &["list", "patch"] },
    Rule { group: "namewire.dev", resource: "networks/status", verbs: &["patch"] },
];

/// Rights in the operator's own namespace.
const OWN_RULES: [Rule; 1] = [Rule {
    group: "coordination.k8s.io",
    resource: "leases",
    verbs: &["create", "get", "update"],
}];

/// Returns the rights that an operator needs: in namespaces with networks, or in its own.
pub const fn rules(is_own_namespace: bool) -> &'static [Rule] {
    match is_own_namespace {
        true => &OWN_RULES,
        false => &RULES,
    }
}

/// For which cluster manifests are written.
#[derive(Clone, Debug)]
pub struct ManifestOptions {
    /// Namespace of the operator.
    pub namespace: String,
    /// Namespaces with networks; none for all.
    pub watched: Vec<String>,
}

/// Returns the definition of the resource, as JSON, which is YAML too.
pub fn definition() -> String {
    let mut text = serde_json::to_string_pretty(&Network::crd()).expect("texts and numbers");
    text.push('\n');
    text
}

/// Returns account, rights and network policies, as a JSON list, which is YAML too.
pub fn manifests(options: &ManifestOptions) -> String {
    let own = &options.namespace;
    let mut items = vec![json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": OPERATOR, "namespace": own },
    })];
    items.extend(role_and_binding("Role", Some(own), "namewire-operator-lease", own, &OWN_RULES));
    if options.watched.is_empty() {
        items.extend(role_and_binding("ClusterRole", None, OPERATOR, own, &RULES));
        items.push(policy(own, own));
    }
    for namespace in &options.watched {
        items.extend(role_and_binding("Role", Some(namespace), OPERATOR, own, &RULES));
        items.push(policy(namespace, own));
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let mut text = serde_json::to_string_pretty(&list).expect("texts and numbers");
    text.push('\n');
    text
}

fn role_and_binding(
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    own: &str,
    rules: &[Rule],
) -> [Value; 2] {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({
                "apiGroups": [rule.group],
                "resources": [rule.resource],
                "verbs": rule.verbs,
            })
        })
        .collect();
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let api = "rbac.authorization.k8s.io";
    [
        json!({
            "apiVersion": format!("{api}/v1"),
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": format!("{api}/v1"),
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": { "apiGroup": api, "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": OPERATOR, "namespace": own }],
        }),
    ]
}

/// Pods of services talk to each other and to the operator. Applications that connect to their
/// faces have the label `namewire.dev/client: "true"`.
fn policy(namespace: &str, own: &str) -> Value {
    let services = json!({ "podSelector": { "matchLabels": { LABEL_MANAGED: MANAGED } } });
    let clients = json!({ "podSelector": { "matchLabels": { "namewire.dev/client": "true" } } });
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": "namewire-services", "namespace": namespace },
        "spec": {
            "podSelector": {
                "matchLabels": { LABEL_MANAGED: MANAGED },
                "matchExpressions": [{ "key": LABEL_NETWORK, "operator": "Exists" }],
            },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{ "from": [services, clients] }],
            "egress": [
                { "to": [services, clients] },
                {
                    "to": [{ "namespaceSelector": { "matchLabels": {
                        "kubernetes.io/metadata.name": own,
                    } } }],
                    "ports": [{ "protocol": "TCP", "port": AGENTS_PORT }],
                },
                { "ports": [
                    { "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 },
                ] },
            ],
        },
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    /// Compares a text with a file of `tests/golden`; RENEW=1 writes it.
    pub fn compare(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("RENEW").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(known == text, "{name} differs: look at it, then RENEW=1 cargo test\n{text}");
    }

    #[test]
    fn definition_is_as_the_file_says() {
        compare("crd.json", &definition());
    }

    #[test]
    fn manifests_are_as_the_file_says() {
        let watched = vec!["site".to_owned()];
        let options = ManifestOptions { namespace: "namewire".to_owned(), watched };
        compare("manifests.json", &manifests(&options));
    }

    #[test]
    fn all_namespaces_need_a_cluster_role_and_nothing_has_a_wildcard() {
        let options = ManifestOptions { namespace: "namewire".to_owned(), watched: Vec::new() };
        let text = manifests(&options);
        assert!(text.contains("ClusterRoleBinding"));
        assert!(!text.contains('*'));
    }
}
