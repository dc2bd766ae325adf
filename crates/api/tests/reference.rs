//! `docs/reference/options.md` is made from what `nw config` prints, so it can't say something else than the code. Whether an option changes in a
//! running router is tried out: each is set to another value, and the configuration asked.

use nw_api::config::Config;
use std::fs;
use std::path::PathBuf;

const RENEW: &str = "RENEW=1 cargo test -p nw-api --test reference";

struct Section {
    path: String,
    /// `[[path]]`: there may be several.
    many: bool,
    doc: String,
    options: Vec<Opt>,
}

struct Opt {
    key: String,
    doc: String,
    expected: String,
    /// As TOML: the default, or an example where there is none.
    value: String,
    has_default: bool,
}

/// What `nw config` prints, taken apart again: documentation, limits in brackets, `key = value`; commented out where there is no default.
fn sections(reference: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    for block in reference.split("\n\n").skip(1) {
        let mut section =
            Section { path: String::new(), many: false, doc: String::new(), options: Vec::new() };
        let (mut doc, mut expected) = (Vec::new(), None);
        for line in block.lines() {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            if section.path.is_empty() && bare.starts_with('[') {
                section.many = bare.starts_with("[[");
                section.path = bare.trim_matches(['[', ']']).to_owned();
                section.doc = std::mem::take(&mut doc).join(" ");
            } else if let Some(expected) = expected.take() {
                let (key, value) = bare.split_once(" = ").expect("an option follows its limits");
                let (key, value) = (key.to_owned(), value.to_owned());
                let has_default = section.many || !line.starts_with('#');
                let doc = std::mem::take(&mut doc).join(" ");
                section.options.push(Opt { key, doc, expected, value, has_default });
            } else if let Some(limits) = bare.strip_prefix('(').and_then(|b| b.strip_suffix(')')) {
                expected = Some(limits.to_owned());
            } else {
                doc.push(bare.to_owned());
            }
        }
        assert!(!section.options.is_empty(), "a block without options:\n{block}");
        sections.push(section);
    }
    sections
}

/// What a number counts, by the last word of its option's name.
fn unit(key: &str) -> &'static str {
    const UNITS: &[(&str, &str)] = &[
        ("_ms", "ms"),
        ("_us", "µs"),
        ("_s", "s"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("_percent", "%"),
        ("mtu", "octets"),
    ];
    UNITS.iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| unit)
}

/// Other values that an option might take, as TOML. The first that the configuration accepts is used.
fn others(option: &Opt) -> Vec<String> {
    let mut others =
        vec!["true".to_owned(), "false".to_owned(), "[]".to_owned(), "0o600".to_owned(), "0o640".to_owned()];
    if let Ok(number) = option.value.parse::<u64>() {
        others.extend([number.saturating_sub(1), number + 1].map(|n| n.to_string()));
    }
    // The words or examples that the limits name.
    let quoted: Vec<_> = option.expected.split('"').skip(1).step_by(2).collect();
    others.extend(quoted.iter().flat_map(|word| [format!("{word:?}"), format!("[{word:?}]")]));
    others.extend(
        [
            "\"/a\"",
            "\"01:00:5e:00:17:ab\"",
            "[\"/a\"]",
            "[3]",
            "[\"127.0.0.1:4\"]",
            "[\"udp4://192.0.2.1:6363\"]",
        ]
        .map(str::to_owned),
    );
    others.push(option.value.clone());
    others
}

/// Options that only make sense beside another of their section, and that.
const BESIDE: &[(&str, &str)] = &[
    ("rib.key", "certificate = \"/a\""),
    ("rib.certificate", "key = \"/a\""),
    ("control.allow_remote", "token_file = \"/a\""),
];

/// True when a router that runs takes a new value of this option from its file at once.
fn is_live(section: &Section, option: &Opt) -> bool {
    let name = format!("{}.{}", section.path, option.key);
    let beside = BESIDE.iter().find(|(option, _)| *option == name).map_or("", |(_, text)| *text);
    let with = |line: String| Config::parse("other", &format!("[{}]\n{beside}\n{line}\n", section.path));
    let before = with(String::new()).unwrap_or_default();
    let mut accepted =
        others(option).into_iter().filter_map(|value| with(format!("{} = {value}", option.key)).ok());
    let changed = accepted.find(|config| *config != before);
    let changed =
        changed.unwrap_or_else(|| panic!("no other value of {name} is known here: add one to `others`"));
    !before.needs_restart(&changed)
}

/// Items that only make sense beside something else: that, and such an item.
const ITEMS: &[(&str, &str, &str)] = &[(
    "allow",
    "[management]\nlocalhop = \"anywhere\"\n[[anchor]]\nid = \"site\"\nfile = \"/a\"\n",
    "id = \"a\"\nfrom = \"remote\"\nanchors = [\"site\"]\nprivileges = [\"rib\"]\n",
)];

/// True when a router that runs takes over a new item of this list at once.
fn is_live_list(section: &Section) -> bool {
    let given = ITEMS.iter().find(|(path, ..)| *path == section.path);
    let beside = given.map_or("", |(_, beside, _)| *beside);
    let parse = |item: &str| Config::parse("list", &format!("{beside}{item}")).ok();
    let before = parse("").unwrap_or_default();
    let lines = section.options.iter().map(|option| format!("{} = {}\n", option.key, option.value));
    // The first options of an item are those that must be there.
    let firsts = lines.scan(String::new(), |text, line| {
        text.push_str(&line);
        Some(text.clone())
    });
    let items: Vec<_> = given.map_or_else(|| firsts.collect(), |(.., item)| vec![(*item).to_owned()]);
    let changed = items.iter().find_map(|item| parse(&format!("[[{}]]\n{item}", section.path)));
    let changed =
        changed.unwrap_or_else(|| panic!("no item of [[{}]] is known here: add one to ITEMS", section.path));
    !before.needs_restart(&changed)
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn page() -> String {
    let mut page = format!(
        "# Every option\n\n\
         Made from the code by `{RENEW}`; do not edit. `nw config` prints the same as a file, `nw config --check FILE` checks one.\n\n\
         One file in TOML: `nw run -c FILE`, else `~/.config/namewire/nw.toml`, else `/etc/namewire/nw.toml`. Every option has a default, so a file needs\n\
         only what differs. **Live**: a running router takes a new value when it reads its file again (SIGHUP, `systemctl reload`); the others\n\
         take effect at the next start. A mistake anywhere in the file changes nothing and is named with its line, what is there and what is\n\
         expected.\n\n"
    );
    let sections = sections(&Config::reference());
    for section in &sections {
        let name = if section.many { format!("[[{}]]", section.path) } else { format!("[{}]", section.path) };
        let anchor: String = section.path.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
        page.push_str(&format!("- [`{name}`](#{anchor}): {}\n", section.doc));
    }
    for section in sections {
        let name = if section.many { format!("[[{}]]", section.path) } else { format!("[{}]", section.path) };
        page.push_str(&format!("\n## `{name}`\n\n{}", section.doc));
        if section.many {
            let live = if is_live_list(&section) { "**Live**" } else { "Not live" };
            page.push_str(&format!(
                " There may be several; none by default. {live}. Values shown are examples or defaults.\n\n"
            ));
            page.push_str("| option | what | expected | value | unit |\n|---|---|---|---|---|\n");
        } else {
            page.push_str(
                "\n\n| option | what | expected | default | unit | live |\n|---|---|---|---|---|---|\n",
            );
        }
        for option in &section.options {
            let default = if option.has_default {
                format!("`{}`", cell(&option.value))
            } else {
                format!("none; such as `{}`", cell(&option.value))
            };
            let (doc, expected, unit) = (cell(&option.doc), cell(&option.expected), unit(&option.key));
            page.push_str(&format!("| `{}` | {doc} | {expected} | {default} | {unit} |", option.key));
            if !section.many {
                page.push_str(if is_live(&section, option) { " yes |" } else { " no |" });
            }
            page.push('\n');
        }
    }
    page
}

#[test]
fn the_page_of_options_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/options.md");
    let page = page();
    if std::env::var_os("RENEW").is_some() {
        fs::write(&path, &page).expect("docs/reference can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let at = there.lines().zip(page.lines()).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| there.lines().count().min(page.lines().count()));
    assert!(
        there == page,
        "docs/reference/options.md is out of date from line {}; renew it with: {RENEW}\n  there:  {}\n  wanted: {}",
        at + 1,
        there.lines().nth(at).unwrap_or("(the end)"),
        page.lines().nth(at).unwrap_or("(the end)"),
    );
}

#[test]
fn every_option_is_on_the_page() {
    let page = page();
    for name in Config::option_names() {
        let (section, key) = name.rsplit_once('.').expect("section.key");
        let part = page.split("\n## `").find(|part| {
            part.starts_with(&format!("[{section}]`")) || part.starts_with(&format!("[[{section}]]`"))
        });
        let part = part.unwrap_or_else(|| panic!("no section for {name}"));
        assert!(part.contains(&format!("\n| `{key}` |")), "{name} is not on the page");
    }
}
