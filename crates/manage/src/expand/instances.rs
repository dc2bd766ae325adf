//! One graph per instance: faces of links split over the instances at the other end, with addresses
//! and names.

use super::ExpandError;
use super::sites::{SiteEnd, SiteLink, Sites};
use crate::document::Document;
use crate::target::{
    ADDRESS_UNKNOWN, Instance, InstanceId, Link, LinkEnd, Target, TargetHost, digest,
};
use nw_element_api::{Scope, Value};
use nw_graph_language::network::{EngineKind, Host, LinkKind, Network};
use nw_graph_language::{Connection, Graph, Source, language};
use nw_graph_language::{Position, Target as GraphTarget};
use nw_link::uri::UNIX_PATH_LEN_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Name of the only host of a document without hosts.
pub(super) const HERE: &str = "here";

/// Hexadecimal digits of a link's id in the names of its faces.
const FACE_DIGITS: usize = 10;

/// A face of an instance, in place of a face of its site.
struct Replacement {
    name: String,
    uri: String,
    is_local: bool,
}

/// By site and instance number: replacements of each face of a link.
type Replacements = BTreeMap<(usize, u32), BTreeMap<String, Vec<Replacement>>>;

/// Builds the target from sites.
pub(super) fn build(
    document: &Document,
    network: &Network,
    sites: Sites,
    folder: &Path,
) -> Result<Target, ExpandError> {
    let mut links = Vec::new();
    let mut replacements = Replacements::new();
    let mut ports = Ports::default();
    let mut errors = Vec::new();
    for link in &sites.links {
        let counts = [0, 1].map(|end| sites.sites[link.ends[end].site].replicas);
        for from in 1..=counts[0] {
            for to in 1..=counts[1] {
                match connect(network, &sites, link, [from, to], folder, &mut ports) {
                    Ok(made) => {
                        let is_local = made.kind.is_local();
                        let numbers = [from, to];
                        for (at, end) in [&made.from, &made.to].into_iter().enumerate() {
                            let site = &link.ends[at];
                            let key = (site.site, numbers[at]);
                            let (name, uri) = (end.face.clone(), end.uri.clone());
                            let faces = replacements.entry(key).or_default();
                            let faces = faces.entry(site.face.clone()).or_default();
                            faces.push(Replacement { name, uri, is_local });
                        }
                        links.push(made);
                    }
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    if !errors.is_empty() {
        errors.dedup();
        return Err(ExpandError(errors));
    }
    links.sort_by(|one: &Link, other| one.id.cmp(&other.id));
    let depths = depths(&sites);
    let mut instances = Vec::new();
    for (at, site) in sites.sites.iter().enumerate() {
        for number in 1..=site.replicas {
            let faces = replacements.remove(&(at, number)).unwrap_or_default();
            let graph = instance_graph(&site.graph, &faces);
            let stores = graph.nodes.iter().filter(|node| node.entry.name == "content_store");
            instances.push(Instance {
                id: instance_id(&sites, at, number),
                service: site.name.clone(),
                stores: stores.map(|node| node.name.clone()).collect(),
                graph: language::write(&graph),
                quota_cores: site.quota_cores,
                origin: site.origin,
                depth: depths[at],
            });
        }
    }
    instances.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(Target {
        network: document.name.clone(),
        hosts: hosts(network),
        instances,
        links,
        has_addresses: sites.addresses.is_some(),
        order: network.order.map(|(order, _)| order).unwrap_or_default(),
    })
}

fn hosts(network: &Network) -> Vec<TargetHost> {
    let host = |host: &Host| TargetHost {
        name: host.name.clone(),
        engine: host.engine,
        is_remote: host.is_remote,
        image: host.image.clone(),
        cores: host.cores,
        memory_mib: host.memory_mib,
    };
    let mut hosts: Vec<TargetHost> = network.hosts.iter().map(host).collect();
    if hosts.is_empty() {
        hosts.push(TargetHost {
            name: HERE.to_owned(),
            engine: EngineKind::Process,
            is_remote: false,
            image: None,
            cores: None,
            memory_mib: None,
        });
    }
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    hosts
}

fn instance_id(sites: &Sites, site: usize, number: u32) -> InstanceId {
    let site = &sites.sites[site];
    let host = site.host.clone().unwrap_or_else(|| HERE.to_owned());
    let image = sites.images.get(&host).map_or("", String::as_str);
    let name = match (sites.revision.as_str(), image) {
        ("", "") => format!("{}~{number}", site.name),
        (revision, image) => format!("{}~{number}-{revision}{image}", site.name),
    };
    InstanceId { name, host }
}

/// Ports in use, by address.
#[derive(Default)]
struct Ports(BTreeMap<IpAddr, BTreeSet<u16>>);

impl Ports {
    /// Takes the port that a digest points to, or the next free one.
    fn take(&mut self, address: IpAddr, (first, last): (u16, u16), digest: &str) -> Option<u16> {
        let used = self.0.entry(address).or_default();
        let count = u32::from(last - first) + 1;
        let hash = u32::from_str_radix(digest.get(..7)?, 16).ok()?;
        let port = (0..count)
            .map(|step| first + ((hash + step) % count) as u16)
            .find(|port| !used.contains(port))?;
        used.insert(port);
        Some(port)
    }
}

/// Makes the link between two instances.
fn connect(
    network: &Network,
    sites: &Sites,
    link: &SiteLink,
    numbers: [u32; 2],
    folder: &Path,
    ports: &mut Ports,
) -> Result<Link, String> {
    let ids = [0, 1].map(|end| instance_id(sites, link.ends[end].site, numbers[end]));
    let host = |id: &InstanceId| network.hosts.iter().find(|host| host.name == id.host);
    let kind = link.kind.unwrap_or_else(|| default_kind(&ids, host(&ids[0])));
    let [from, to] = &ids;
    let faces = [&link.ends[0].face, &link.ends[1].face];
    let base =
        digest(&[kind.name(), &from.name, &from.host, faces[0], &to.name, &to.host, faces[1]]);
    let own = sites.addresses.as_ref().filter(|_| !kind.is_local());
    let own = own.map(|known| known.get(to).copied().unwrap_or(ADDRESS_UNKNOWN));
    let (from_uri, to_uri) = if kind.is_local() {
        let path = folder.join(format!("{base}.sock"));
        if path.as_os_str().len() > UNIX_PATH_LEN_MAX {
            return Err(format!(
                "sockets in {} would have paths of more than {UNIX_PATH_LEN_MAX} bytes: use a folder with a shorter path",
                folder.display()
            ));
        }
        let uri = format!("{}://{}", kind.name(), path.display());
        (uri.clone(), uri)
    } else {
        let host = host(to);
        let of_host = || host.and_then(|host| host.address).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let address = own.unwrap_or_else(of_host);
        let range = host.map_or(nw_graph_language::network::LINK_PORTS_DEFAULT, |host| host.ports);
        // A port stays when the address changes.
        let shared = if own.is_some() { Ipv4Addr::UNSPECIFIED.into() } else { address };
        let port = ports.take(shared, range, &base).ok_or_else(|| {
            format!("host {} has no port left for links: widen ports=A..B", to.host)
        })?;
        // A container is reached at an address that it does not have itself.
        let is_container = host.is_some_and(|host| host.engine == EngineKind::Docker);
        let is_any = is_container || own.is_some();
        let listens = if is_any { unspecified(address) } else { address };
        (uri(kind, address, port), uri(kind, listens, port))
    };
    let id = digest(&[&base, &from_uri, &to_uri]);
    // A listener has no use for another name, and its port is in use, when the address changes.
    let to_id = if own.is_some() { digest(&[&base, &to_uri]) } else { id.clone() };
    let face = |end: usize, other: &InstanceId, id: &str| {
        let logical = match link.is_join {
            true => link.ends[end].face.clone(),
            false => format!("to_{}", other.name.replace('~', "-")),
        };
        format!("{logical}_{}", &id[..FACE_DIGITS])
    };
    let (from_face, to_face) = (face(0, to, &id), face(1, from, &to_id));
    Ok(Link {
        kind,
        from: LinkEnd { instance: from.clone(), face: from_face, uri: from_uri },
        to: LinkEnd { instance: to.clone(), face: to_face, uri: to_uri },
        cost: link.cost,
        id,
    })
}

fn default_kind(ids: &[InstanceId; 2], host: Option<&Host>) -> LinkKind {
    match (ids[0].host == ids[1].host, host.map(|host| host.engine).unwrap_or_default()) {
        (false, _) => LinkKind::Tcp,
        (true, EngineKind::Process) => LinkKind::Shm,
        (true, EngineKind::Docker) => LinkKind::Unix,
    }
}

fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

fn uri(kind: LinkKind, address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(address) => format!("{}4://{address}:{port}", kind.name()),
        IpAddr::V6(address) => format!("{}6://[{address}]:{port}", kind.name()),
    }
}

/// Builds the graph of an instance from that of its site.
fn instance_graph(site: &Graph, replacements: &BTreeMap<String, Vec<Replacement>>) -> Graph {
    let mut graph = Graph { faces: Vec::new(), nodes: site.nodes.clone(), connections: Vec::new() };
    // By face of the site: indices of the instance's faces.
    let mut faces_of: Vec<Vec<usize>> = Vec::new();
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for face in &site.faces {
        let first = graph.faces.len();
        match replacements.get(&face.name) {
            Some(replacements) => graph.faces.extend(replacements.iter().map(|replacement| {
                let mut face = face.clone();
                face.name.clone_from(&replacement.name);
                face.uri = Some(replacement.uri.clone());
                let is_local = replacement.is_local;
                face.info.scope = if is_local { Scope::Local } else { Scope::NonLocal };
                face
            })),
            None => {
                let mut own = face.clone();
                if let Some(uri) = &face.uri {
                    own.name = format!("{}_{}", face.name, &digest(&[uri])[..6]);
                }
                graph.faces.push(own);
            }
        }
        faces_of.push((first..graph.faces.len()).collect());
        let new = graph.faces[first..].iter().map(|face| face.name.clone());
        names.insert(&face.name, new.collect());
    }
    for connection in &site.connections {
        let sources: Vec<Source> = match connection.from {
            Source::Face(face) => faces_of[face].iter().map(|face| Source::Face(*face)).collect(),
            from => vec![from],
        };
        let to = match connection.to {
            GraphTarget::Face(face) => match faces_of[face].as_slice() {
                [only] => GraphTarget::Face(*only),
                // Replies: each goes to the instance that sent its Interest.
                _ => GraphTarget::Faces,
            },
            to => to,
        };
        let made =
            sources.into_iter().map(|from| Connection { from, to, position: Position::default() });
        for connection in made {
            if !graph.connections.contains(&connection) {
                graph.connections.push(connection);
            }
        }
    }
    for node in &mut graph.nodes {
        for (name, value) in &mut node.parameters.0 {
            if let ("routes", Value::List(routes)) = (name.as_str(), value) {
                routes.iter_mut().for_each(|route| rename(route, &names));
                sort_routes(routes);
            }
        }
    }
    graph
}

/// Sorts routes by prefix. Of several routes with one prefix the last one holds, as in elements.
fn sort_routes(routes: &mut Vec<Value>) {
    let prefix = |value: &Value| match value {
        Value::Text(text) => text.split_whitespace().next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let sorted: BTreeMap<String, Value> =
        routes.drain(..).map(|route| (prefix(&route), route)).collect();
    routes.extend(sorted.into_values());
}

/// Replaces the names of faces in a route by those of the instance's faces.
fn rename(route: &mut Value, names: &BTreeMap<&str, Vec<String>>) {
    let Value::Text(text) = route else { return };
    let mut words = text.split_whitespace().peekable();
    let mut new: Vec<String> = words.next().map(str::to_owned).into_iter().collect();
    while let Some(word) = words.next() {
        let option = words.next_if(|next| next.starts_with("cost="));
        let unchanged = [word.to_owned()];
        let faces = names.get(word).map_or(unchanged.as_slice(), Vec::as_slice);
        for face in faces {
            new.push(face.clone());
            new.extend(option.map(str::to_owned));
        }
    }
    *text = new.join(" ");
}

/// Returns how many services Interests still pass after each site, at most; joined faces do not
/// count, as Interests take them in both directions.
fn depths(sites: &Sites) -> Vec<u32> {
    let mut next: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sites.sites.len()];
    for link in sites.links.iter().filter(|link| !link.is_join) {
        let [one, other] = &link.ends;
        for (from, to) in [(one, other), (other, one)] {
            if leads_interests(&sites.sites[from.site].graph, from) {
                next[from.site].insert(to.site);
            }
        }
    }
    let mut depths: Vec<Option<u32>> = vec![None; next.len()];
    for site in 0..next.len() {
        let mut open = BTreeSet::new();
        depth(site, &next, &mut depths, &mut open);
    }
    depths.into_iter().map(Option::unwrap_or_default).collect()
}

fn depth(
    site: usize,
    next: &[BTreeSet<usize>],
    depths: &mut [Option<u32>],
    open: &mut BTreeSet<usize>,
) -> u32 {
    if let Some(known) = depths[site] {
        return known;
    }
    if !open.insert(site) {
        return 0;
    }
    let deepest = next[site].iter().map(|other| depth(*other, next, depths, open) + 1).max();
    let found = deepest.unwrap_or(0);
    open.remove(&site);
    depths[site] = Some(found);
    found
}

/// Returns whether Interests leave a graph by a face: by a connection, or by an element that
/// chooses among all faces.
fn leads_interests(graph: &Graph, end: &SiteEnd) -> bool {
    let Some(face) = graph.face_index(&end.face) else { return false };
    let is_direct = graph.connections.iter().any(|connection| {
        connection.to == GraphTarget::Face(face)
            && super::sites::passes_interests(graph, connection.from, connection.to)
    });
    let names_face = graph.nodes.iter().any(|node| {
        let routes = node.parameters.0.iter().filter(|(name, _)| name == "routes");
        routes.into_iter().any(|(_, value)| match value {
            Value::List(routes) => routes.iter().any(|route| match route {
                Value::Text(text) => text.split_whitespace().skip(1).any(|word| word == end.face),
                _ => false,
            }),
            _ => false,
        })
    });
    is_direct || names_face
}
