//! Writes a configuration for keepalived, for two balancers of which one has the addresses.
//!
//! Both sides form one sync group: a balancer that loses one side gives up both, as members would
//! otherwise send to a balancer that can't reach the clients.

use crate::config::{Cidr, Config};
use core::fmt::Write;

/// The options that differ between the two balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrrpOptions {
    /// The VRRP priority: the balancer with the higher one has the addresses.
    pub priority: u8,
    /// The interface towards clients, instead of the configured one.
    pub outside: Option<String>,
    /// The interface towards members, instead of the configured one.
    pub inside: Option<String>,
    /// The path of `nw`, which checks whether the balancer works.
    pub program: String,
    /// The path of the balancer's control socket.
    pub control: String,
}

/// The configuration can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VrrpError {
    /// An option is missing.
    #[error("{0} is missing: set it in [vrrp] of the balancer's file{1}")]
    Missing(&'static str, &'static str),
    /// The cluster's address would not move to the other balancer.
    #[error(
        "{0} is the cluster's address and not among vrrp.outside_addresses: it would not move to the other balancer"
    )]
    NotMoving(std::net::IpAddr),
    /// The priority is out of range.
    #[error("a priority is from 1 to 254, not {0}")]
    Priority(u8),
    /// A text is not safe in keepalived's file.
    #[error("{what} is {text:?}: keepalived's file can't carry that safely; use {allowed}")]
    Text {
        /// The option.
        what: &'static str,
        /// Its value.
        text: String,
        /// The allowed characters.
        allowed: &'static str,
    },
    /// Both groups have one id on one interface.
    #[error(
        "vrrp.outside_router_id and vrrp.inside_router_id are both {0}, on one interface: give them different numbers"
    )]
    SameId(u32),
}

/// Returns the content of the file.
///
/// # Errors
/// An option is missing or unsafe.
pub fn configuration(config: &Config, options: &VrrpOptions) -> Result<String, VrrpError> {
    let vrrp = &config.vrrp;
    if !(1..=254).contains(&options.priority) {
        return Err(VrrpError::Priority(options.priority));
    }
    let outside = options.outside.as_ref().or(vrrp.outside.as_ref());
    let outside = outside.ok_or(VrrpError::Missing("vrrp.outside", ", or with --outside"))?;
    let inside = options.inside.as_ref().or(vrrp.inside.as_ref());
    let inside = inside.ok_or(VrrpError::Missing("vrrp.inside", ", or with --inside"))?;
    check_sides(config, outside, inside)?;
    check_texts(config, options, outside, inside)?;
    let name = &config.cluster.name;
    let mut text = format!(
        "# Made by `nw balancer vrrp` from the configuration of the cluster {name}. Each balancer has its own \
         priority and, perhaps, interfaces.\n\
         # No state is kept in a balancer, so nothing is synchronised: both compute the same \
         table from the same file and key.\n\
         global_defs {{\n    vrrp_version 3\n    enable_script_security\n    script_user root\n    \
         vrrp_garp_master_repeat 3\n}}\n\n\
         vrrp_script nw_{name} {{\n    script \"{program} balancer status --control {control} --check\"\n    \
         interval 1\n    timeout 2\n    fall 2\n    rise 2\n}}\n\n\
         vrrp_sync_group nw_{name} {{\n    group {{\n        nw_{name}_outside\n        nw_{name}_inside\n    }}\n    \
         track_script {{\n        nw_{name}\n    }}\n}}\n",
        program = options.program,
        control = options.control,
    );
    let sides = [
        ("outside", outside, vrrp.outside_router_id, &vrrp.outside_addresses),
        ("inside", inside, vrrp.inside_router_id, &vrrp.inside_addresses),
    ];
    for (side, interface, id, addresses) in sides {
        instance(
            &mut text,
            &format!("nw_{name}_{side}"),
            interface,
            id,
            addresses,
            config,
            options.priority,
        );
    }
    Ok(text)
}

/// Checks the addresses and virtual router ids of both sides.
fn check_sides(config: &Config, outside: &str, inside: &str) -> Result<(), VrrpError> {
    let vrrp = &config.vrrp;
    if vrrp.outside_addresses.is_empty() {
        return Err(VrrpError::Missing(
            "vrrp.outside_addresses",
            ": the cluster's addresses with their network",
        ));
    }
    if vrrp.inside_addresses.is_empty() {
        return Err(VrrpError::Missing(
            "vrrp.inside_addresses",
            ": the gateway's addresses of members",
        ));
    }
    if inside == outside && vrrp.inside_router_id == vrrp.outside_router_id {
        return Err(VrrpError::SameId(vrrp.inside_router_id));
    }
    for ip in &config.cluster.addresses {
        if !vrrp.outside_addresses.iter().any(|cidr| cidr.address == ip.0) {
            return Err(VrrpError::NotMoving(ip.0));
        }
    }
    Ok(())
}

/// Checks the texts that the file will contain.
fn check_texts(
    config: &Config,
    options: &VrrpOptions,
    outside: &str,
    inside: &str,
) -> Result<(), VrrpError> {
    checked("vrrp.outside", outside, is_interface, INTERFACE_TEXT)?;
    checked("vrrp.inside", inside, is_interface, INTERFACE_TEXT)?;
    checked("the path of nw", &options.program, is_path, PATH_TEXT)?;
    checked("control.path", &options.control, is_path, PATH_TEXT)?;
    checked(
        "cluster.name",
        &config.cluster.name,
        crate::config::is_identifier,
        "letters, digits, - and _",
    )?;
    Ok(())
}

const INTERFACE_TEXT: &str = "the name of an interface: at most 15 letters, digits and . _ - : @";
const PATH_TEXT: &str = "a path of letters, digits and / . _ - +";

/// Refuses text that would end its line, quotes or block: keepalived runs the file's scripts as
/// root.
fn checked(
    what: &'static str,
    text: &str,
    is_safe: impl FnOnce(&str) -> bool,
    allowed: &'static str,
) -> Result<(), VrrpError> {
    if is_safe(text) {
        Ok(())
    } else {
        Err(VrrpError::Text { what, text: text.to_owned(), allowed })
    }
}

fn is_made_of(text: &str, punctuation: &[u8]) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || punctuation.contains(&byte))
}

fn is_interface(text: &str) -> bool {
    text.len() <= 15 && is_made_of(text, b"._-:@")
}

/// A space would split the script's command; keepalived expands `~` and `$`.
fn is_path(text: &str) -> bool {
    is_made_of(text, b"/._-+")
}

fn instance(
    text: &mut String,
    name: &str,
    interface: &str,
    id: u32,
    addresses: &[Cidr],
    config: &Config,
    priority: u8,
) {
    let seconds = f64::from(config.vrrp.advertise_ms) / 1000.0;
    // A VRRP group advertises addresses of one family; those of the other are moved along.
    let first_is_v4 = addresses[0].address.is_ipv4();
    let (advertised, excluded): (Vec<&Cidr>, Vec<&Cidr>) =
        addresses.iter().partition(|cidr| cidr.address.is_ipv4() == first_is_v4);
    let _ = write!(
        text,
        "\nvrrp_instance {name} {{\n    state BACKUP\n    interface {interface}\n    virtual_router_id {id}\n    \
         priority {priority}\n    advert_int {seconds}\n"
    );
    for (keyword, list) in
        [("virtual_ipaddress", advertised), ("virtual_ipaddress_excluded", excluded)]
    {
        if !list.is_empty() {
            let lines: String =
                list.iter().map(|cidr| format!("        {cidr} dev {interface}\n")).collect();
            let _ = write!(text, "    {keyword} {{\n{lines}    }}\n");
        }
    }
    text.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    const FILE: &str = r#"
[cluster]
addresses = ["192.0.2.1", "2001:db8::1"]
interfaces = ["eth0", "eth1"]
[vrrp]
outside = "eth0"
outside_addresses = ["192.0.2.1/24", "2001:db8::1/64"]
inside = "eth1"
inside_addresses = ["10.0.0.1/24"]
"#;

    fn options() -> VrrpOptions {
        VrrpOptions {
            priority: 150,
            outside: None,
            inside: Some("lo".to_owned()),
            program: "/bin/true".to_owned(),
            control: "/run/namewire/balancer.sock".to_owned(),
        }
    }

    fn made(text: &str, options: &VrrpOptions) -> Result<String, VrrpError> {
        configuration(&Config::parse("b.toml", text).unwrap(), options)
    }

    #[test]
    fn both_sides_are_one_sync_group() {
        let text = made(FILE, &options()).unwrap();
        for part in [
            "group {\n        nw_cluster_outside\n        nw_cluster_inside\n    }",
            "interface eth0\n    virtual_router_id 51\n    priority 150\n    advert_int 0.5",
            "interface lo\n    virtual_router_id 52",
            "virtual_ipaddress {\n        192.0.2.1/24 dev eth0\n    }\n    virtual_ipaddress_excluded {\n        \
             2001:db8::1/64 dev eth0\n",
            "virtual_ipaddress {\n        10.0.0.1/24 dev lo\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
    }

    #[test]
    fn missing_option_is_named() {
        for line in [
            "outside = \"eth0\"\n",
            "outside_addresses = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n",
            "inside_addresses = [\"10.0.0.1/24\"]\n",
        ] {
            let option = line.split(' ').next().unwrap();
            let said = made(&FILE.replace(line, ""), &options()).unwrap_err().to_string();
            assert!(said.starts_with(&format!("vrrp.{option} is missing")), "{said}");
        }
        let said = made(&FILE.replace("192.0.2.1/24", "192.0.2.9/24"), &options()).unwrap_err();
        assert_eq!(said, VrrpError::NotMoving("192.0.2.1".parse().unwrap()));
        let said = made(FILE, &VrrpOptions { priority: 0, ..options() }).unwrap_err();
        assert_eq!(said.to_string(), "a priority is from 1 to 254, not 0");
        let one_interface = VrrpOptions { inside: Some("eth0".to_owned()), ..options() };
        assert!(
            made(&FILE.replace("inside = \"eth1\"", "inside_router_id = 51"), &one_interface)
                .is_err()
        );
    }

    #[test]
    fn configuration_with_unsafe_text_is_refused() {
        for text in
            ["lo\n}\nvrrp_script x {", "a b", "", "lo\"", "a-name-of-16-char", "lo{", "$PATH", "é"]
        {
            let outside = VrrpOptions { outside: Some(text.to_owned()), ..options() };
            let inside = VrrpOptions { inside: Some(text.to_owned()), ..options() };
            for options in [outside, inside] {
                assert!(matches!(made(FILE, &options), Err(VrrpError::Text { .. })), "{text:?}");
            }
        }
        for text in ["/run/a\" script \"", "/run/a b.sock", "/run/\n}", "", "/run/$HOME", "/run/~"]
        {
            let control = VrrpOptions { control: text.to_owned(), ..options() };
            let program = VrrpOptions { program: text.to_owned(), ..options() };
            for options in [control, program] {
                assert!(matches!(made(FILE, &options), Err(VrrpError::Text { .. })), "{text:?}");
            }
        }
        let vlan = VrrpOptions { outside: Some("eth0.100".to_owned()), ..options() };
        assert!(made(FILE, &vlan).is_ok());
    }

    /// Prints that the test is skipped on standard error, which libtest does not capture.
    fn skip(reason: &str) {
        let _ = std::io::stderr()
            .write_all(format!("skipped: keepalived_accepts_the_file: {reason}\n").as_bytes());
    }

    /// Checked by keepalived itself, if it is installed.
    #[test]
    fn keepalived_accepts_the_file() {
        if Command::new("keepalived").arg("--version").output().is_err() {
            return skip("keepalived is not installed: `tools/setup test` installs it");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keepalived.conf");
        // keepalived checks that the interfaces exist, and accepts no loopback.
        let interfaces = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        let names = interfaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let ordinary = |name: &String| {
            name != "lo"
                && std::fs::exists(format!("/sys/class/net/{name}/device")).unwrap_or(false)
        };
        let Some(interface) = names.into_iter().find(ordinary) else {
            return skip("this machine has no network interface that keepalived accepts");
        };
        let both =
            VrrpOptions { outside: Some(interface.clone()), inside: Some(interface), ..options() };
        std::fs::write(&path, made(FILE, &both).unwrap()).unwrap();
        let check =
            Command::new("keepalived").arg("--config-test").arg("-f").arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(check.status.success(), "{said}");
    }
}
