//! The descriptors of a network: one of the network service, and one of each VNF, which is a
//! service of the network.
//!
//! | Namewire | SOL 001 |
//! |---|---|
//! | network | NS |
//! | service | VNF with one VDU |
//! | bounds of instances | VDU profile, scaling aspect |
//! | link between services | NsVirtualLink |
//! | face to the outside | Sap, and the NsVirtualLink to it |
//! | end of a link at a service | requirement of the VNF, VduCp |

use crate::ToscaError;
use crate::yaml::document;
use nw_manage::target::Origin;
use nw_manage::{Decisions, Document, expand};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Version of TOSCA's language.
const LANGUAGE: &str = "tosca_simple_yaml_1_2";
/// Folder of sockets that targets are made with; it does not occur in descriptors.
const FOLDER: &str = "/l";
const PROVIDER: &str = "Namewire";
const PROTOCOLS: [&str; 1] = ["ipv4"];
/// File with the types of the specification, in `Definitions`.
pub const NFV_TYPES_FILE: &str = "nfv_types.yaml";
/// File with the types of the network's services.
const TYPES_FILE: &str = "nw_types.yaml";

/// A service of a network.
#[derive(Default)]
struct Service {
    bounds: (u32, u32),
    /// Names of ends, and the links that they are at.
    ends: BTreeMap<String, String>,
}

/// What the descriptors of a network say.
struct Network {
    name: String,
    digest: String,
    services: BTreeMap<String, Service>,
    /// Links between services, with a description.
    links: BTreeMap<String, String>,
    /// Faces to the outside, with their links and descriptions.
    access_points: BTreeMap<String, (String, String)>,
}

/// Returns the descriptors of a network by file name: the one of the network service first.
pub fn descriptors(source: &Document) -> Result<Vec<(String, String)>, ToscaError> {
    let network = read(source)?;
    let mut files = vec![
        (format!("{}.yaml", network.name), document("Network service", &service_of(&network))),
        (TYPES_FILE.to_owned(), document("Types of services", &types_of(&network))),
    ];
    for (name, service) in &network.services {
        let text = document("Service of the network", &function_of(&network, name, service));
        files.push((format!("vnf_{}.yaml", plain(name)), text));
    }
    Ok(files)
}

/// Returns a name with letters, digits and `_` only.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn read(source: &Document) -> Result<Network, ToscaError> {
    let target = expand(source, &Decisions::default(), Path::new(FOLDER));
    let target = target.map_err(|error| ToscaError::Document(error.to_string()))?;
    let mut network = Network {
        name: plain(&source.name),
        digest: source.digest(),
        services: BTreeMap::new(),
        links: BTreeMap::new(),
        access_points: BTreeMap::new(),
    };
    let mut service_of_instance = BTreeMap::new();
    for instance in target.instances.iter().filter(|found| found.origin == Origin::Document) {
        service_of_instance.insert(instance.id.clone(), instance.service.clone());
        let scale = source.file.network.scales.iter().find(|line| line.service == instance.service);
        let bounds = scale.map_or((1, 1), |scale| (scale.min, scale.max));
        network.services.entry(instance.service.clone()).or_default().bounds = bounds;
        // Faces to the outside have other names in instances, and the same address.
        for face in &source.file.graph.faces {
            let Some(uri) = &face.uri else { continue };
            let mut lines = instance.graph.lines().filter(|line| line.starts_with("face "));
            let has_it = lines.any(|line| line.split_whitespace().any(|word| word == uri));
            if has_it {
                add_access_point(&mut network, &instance.service, &face.name, face.is_listener);
            }
        }
    }
    for link in &target.links {
        let ends = [&link.from, &link.to].map(|end| service_of_instance.get(&end.instance));
        if let [Some(from), Some(to)] = ends {
            add_link(&mut network, from, to, link.kind.name());
        }
    }
    Ok(network)
}

fn add_access_point(network: &mut Network, service: &str, face: &str, is_listener: bool) {
    let link = format!("outside_{}", plain(face));
    let direction = if is_listener { "accepts connections" } else { "connects to others" };
    let description = format!("Face {face}, which {direction}");
    network.access_points.insert(plain(face), (link.clone(), description));
    let ends = &mut network.services.entry(service.to_owned()).or_default().ends;
    ends.insert(plain(face), link);
}

fn add_link(network: &mut Network, from: &str, to: &str, kind: &str) {
    let link = format!("link_{}_{}", plain(from), plain(to));
    network.links.insert(link.clone(), format!("Link over {kind} from {from} to {to}"));
    for (service, end) in
        [(from, format!("to_{}", plain(to))), (to, format!("from_{}", plain(from)))]
    {
        let ends = &mut network.services.entry(service.to_owned()).or_default().ends;
        ends.insert(end, link.clone());
    }
}

/// Returns the type of a service, as a name of the network's own.
fn type_name(network: &Network, service: &str) -> String {
    format!("namewire.nodes.{}.{}", network.name, plain(service))
}

/// Returns the properties of a VNF.
fn properties(network: &Network, service: &str) -> Value {
    json!({
        "descriptor_id": format!("{}-{}-{}", network.digest, network.name, plain(service)),
        "descriptor_version": network.digest,
        "provider": PROVIDER,
        "product_name": service,
        "software_version": env!("CARGO_PKG_VERSION"),
        "flavour_id": "default",
        "flavour_description": "Bounds of the document",
        "vnfm_info": [PROVIDER],
    })
}

fn service_of(network: &Network) -> Value {
    let mut nodes = Map::new();
    let invariant = format!("namewire-{}", network.name);
    nodes.insert(
        format!("ns_{}", network.name),
        json!({
            "type": "tosca.nodes.nfv.NS",
            "properties": {
                "descriptor_id": format!("{}-{}", network.digest, network.name),
                "designer": PROVIDER,
                "version": network.digest,
                "name": network.name,
                "invariant_id": invariant,
            },
        }),
    );
    for (name, service) in &network.services {
        let requirements: Vec<_> =
            service.ends.iter().map(|(end, link)| json!({ end.as_str(): link })).collect();
        let mut node = json!({
            "type": type_name(network, name),
            "properties": properties(network, name),
        });
        if !requirements.is_empty() {
            node["requirements"] = requirements.into();
        }
        nodes.insert(format!("vnf_{}", plain(name)), node);
    }
    let outside = network.access_points.values();
    let links: BTreeSet<(&String, &String)> =
        network.links.iter().chain(outside.map(|(link, text)| (link, text))).collect();
    for (link, description) in links {
        let connectivity = json!({ "layer_protocols": PROTOCOLS });
        let properties = json!({ "connectivity_type": connectivity, "description": description });
        let node = json!({ "type": "tosca.nodes.nfv.NsVirtualLink", "properties": properties });
        nodes.insert(link.clone(), node);
    }
    for (face, (link, description)) in &network.access_points {
        nodes.insert(
            format!("sap_{face}"),
            json!({
                "type": "tosca.nodes.nfv.Sap",
                "properties": { "layer_protocols": PROTOCOLS, "description": description },
                "requirements": [{ "internal_virtual_link": link }],
            }),
        );
    }
    json!({
        "tosca_definitions_version": LANGUAGE,
        "description": format!("Network {} of named-data services", network.name),
        "imports": [NFV_TYPES_FILE, TYPES_FILE],
        "topology_template": { "node_templates": nodes },
    })
}

fn types_of(network: &Network) -> Value {
    let mut types = Map::new();
    for (name, service) in &network.services {
        let requirement = |end: &String| {
            json!({
                end.as_str(): {
                    "capability": "tosca.capabilities.nfv.VirtualLinkable",
                    "relationship": "tosca.relationships.nfv.VirtualLinksTo",
                    "occurrences": [0, 1],
                },
            })
        };
        let requirements: Vec<_> = service.ends.keys().map(requirement).collect();
        // With defaults, so that a service may stand for its type without inputs.
        let mut defaults = Map::new();
        for (property, value) in properties(network, name).as_object().into_iter().flatten() {
            let definition = if value.is_array() {
                json!({ "type": "list", "entry_schema": { "type": "string" }, "default": value })
            } else {
                json!({ "type": "string", "default": value })
            };
            defaults.insert(property.clone(), definition);
        }
        let mut node = json!({
            "derived_from": "tosca.nodes.nfv.VNF",
            "description": format!("Service {name}"),
            "properties": defaults,
        });
        if !requirements.is_empty() {
            node["requirements"] = requirements.into();
        }
        types.insert(type_name(network, name), node);
    }
    json!({
        "tosca_definitions_version": LANGUAGE,
        "imports": [NFV_TYPES_FILE],
        "node_types": types,
    })
}

fn function_of(network: &Network, name: &str, service: &Service) -> Value {
    let vdu = format!("{}_vdu", plain(name));
    let (min, max) = service.bounds;
    let mut nodes = Map::new();
    nodes.insert(
        format!("vnf_{}", plain(name)),
        json!({ "type": type_name(network, name), "properties": properties(network, name) }),
    );
    let image = json!({
        "name": "namewire",
        "version": env!("CARGO_PKG_VERSION"),
        "container_format": "docker",
    });
    let profile = json!({ "min_number_of_instances": min, "max_number_of_instances": max });
    nodes.insert(
        vdu.clone(),
        json!({
            "type": "tosca.nodes.nfv.Vdu.Compute",
            "properties": {
                "name": name,
                "description": format!("One process of service {name}"),
                "vdu_profile": profile,
                "sw_image_data": image,
            },
        }),
    );
    let mut mappings = Map::new();
    for end in service.ends.keys() {
        let point = format!("cp_{end}");
        nodes.insert(
            point.clone(),
            json!({
                "type": "tosca.nodes.nfv.VduCp",
                "properties": { "layer_protocols": PROTOCOLS, "description": format!("End {end}") },
                "requirements": [{ "virtual_binding": vdu }],
            }),
        );
        mappings.insert(end.clone(), json!([point, "virtual_link"]));
    }
    let mut substitution = json!({ "node_type": type_name(network, name) });
    if !mappings.is_empty() {
        substitution["requirements"] = mappings.into();
    }
    let mut topology = json!({ "substitution_mappings": substitution, "node_templates": nodes });
    if min < max {
        topology["policies"] = scaling(name, &vdu, min, max);
    }
    json!({
        "tosca_definitions_version": LANGUAGE,
        "description": format!("Service {name} of network {}", network.name),
        "imports": [NFV_TYPES_FILE, TYPES_FILE],
        "topology_template": topology,
    })
}

fn scaling(name: &str, vdu: &str, min: u32, max: u32) -> Value {
    let aspect = plain(name);
    json!([
        { "scaling_aspects": {
            "type": "tosca.policies.nfv.ScalingAspects",
            "properties": { "aspects": { aspect.as_str(): {
                "name": aspect,
                "description": "Instances, one at a time",
                "max_scale_level": max - min,
                "step_deltas": ["one"],
            } } },
        } },
        { "initial_instances": {
            "type": "tosca.policies.nfv.VduInitialDelta",
            "properties": { "initial_delta": { "number_of_instances": min } },
            "targets": [vdu],
        } },
        { "instances_per_step": {
            "type": "tosca.policies.nfv.VduScalingAspectDeltas",
            "properties": {
                "aspect": aspect,
                "deltas": { "one": { "number_of_instances": 1 } },
            },
            "targets": [vdu],
        } },
    ])
}
