//! `docs/reference/options.md` is generated from the output of `nw config`. Whether an option is
//! live is tested: it is set to another value, and the configuration reports whether a restart is
//! needed.

use nw_api::config::Config;
use std::fs;
use std::path::PathBuf;

const RENEW: &str = "RENEW=1 cargo test -p nw-api --test all reference";

struct Section {
    path: String,
    /// Whether the section may be repeated: `[[path]]`.
    many: bool,
    doc: String,
    options: Vec<Opt>,
}

struct Opt {
    key: String,
    doc: String,
    expected: String,
    /// The default as TOML, or an example.
    value: String,
    has_default: bool,
}

/// Parses the output of `nw config`: documentation, limits in brackets, `key = value`, which is
/// commented out for options without a default.
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

/// Returns the unit of an option, from the end of its name.
fn unit(key: &str) -> &'static str {
    const UNITS: &[(&str, &str)] = &[
        ("_ms", "ms"),
        ("_us", "µs"),
        ("_s", "s"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("_percent", "%"),
        ("mtu", "bytes"),
    ];
    UNITS.iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| unit)
}

/// Returns possible values of an option as TOML. The first that the configuration accepts is used.
fn candidate_values(option: &Opt) -> Vec<String> {
    let mut values = vec![
        "true".to_owned(),
        "false".to_owned(),
        "[]".to_owned(),
        "0o600".to_owned(),
        "0o640".to_owned(),
    ];
    if let Ok(number) = option.value.parse::<u64>() {
        values.extend([number.saturating_sub(1), number + 1].map(|n| n.to_string()));
    }
    // Values mentioned in the limits.
    let quoted: Vec<_> = option.expected.split('"').skip(1).step_by(2).collect();
    values.extend(quoted.iter().flat_map(|word| [format!("{word:?}"), format!("[{word:?}]")]));
    values.extend(
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
    values.push(option.value.clone());
    values
}

/// Options that require another option of their section, with that option.
const REQUIRED: &[(&str, &str)] = &[
    ("rib.key", "certificate = \"/a\""),
    ("rib.certificate", "key = \"/a\""),
    ("page.key", "certificate = \"/a\""),
    ("page.certificate", "key = \"/a\""),
    ("control.allow_remote", "token_file = \"/a\""),
];

/// Returns whether a running router applies a new value of this option on reload.
fn is_live(section: &Section, option: &Opt) -> bool {
    let name = format!("{}.{}", section.path, option.key);
    let required =
        REQUIRED.iter().find(|(option, _)| *option == name).map_or("", |(_, text)| *text);
    let with =
        |line: String| Config::parse("other", &format!("[{}]\n{required}\n{line}\n", section.path));
    let before = with(String::new()).unwrap_or_default();
    let mut accepted = candidate_values(option)
        .into_iter()
        .filter_map(|value| with(format!("{} = {value}", option.key)).ok());
    let changed = accepted.find(|config| *config != before);
    let changed = changed.unwrap_or_else(|| {
        panic!("no other value of {name} is known here: add one to `candidate_values`")
    });
    !before.needs_restart(&changed)
}

/// Repeated sections that require other sections: these, and such an item.
const ITEMS: &[(&str, &str, &str)] = &[(
    "allow",
    "[management]\nlocalhop = \"anywhere\"\n[[anchor]]\nid = \"site\"\nfile = \"/a\"\n",
    "id = \"a\"\nfrom = \"remote\"\nanchors = [\"site\"]\nprivileges = [\"rib\"]\n",
)];

/// Returns whether a running router applies a new item of this section on reload.
fn is_live_list(section: &Section) -> bool {
    let given = ITEMS.iter().find(|(path, ..)| *path == section.path);
    let required = given.map_or("", |(_, required, _)| *required);
    let parse = |item: &str| Config::parse("list", &format!("{required}{item}")).ok();
    let before = parse("").unwrap_or_default();
    let lines = section.options.iter().map(|option| format!("{} = {}\n", option.key, option.value));
    // The mandatory options of an item are the first.
    let prefixes = lines.scan(String::new(), |text, line| {
        text.push_str(&line);
        Some(text.clone())
    });
    let items: Vec<_> =
        given.map_or_else(|| prefixes.collect(), |(.., item)| vec![(*item).to_owned()]);
    let changed = items.iter().find_map(|item| parse(&format!("[[{}]]\n{item}", section.path)));
    let changed = changed.unwrap_or_else(|| {
        panic!("no item of [[{}]] is known here: add one to ITEMS", section.path)
    });
    !before.needs_restart(&changed)
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn page() -> String {
    let mut page = format!(
        "# Every option\n\n\
         Generated from the code by `{RENEW}`; do not edit. `nw config` prints the same as a file,\n\
         `nw config --check FILE` checks one.\n\n\
         The file is TOML: `nw run -c FILE`, else `~/.config/namewire/nw.toml`, else\n\
         `/etc/namewire/nw.toml`. Every option has a default, so a file needs only the options that\n\
         differ. **Live**: a running router applies a new value when it reloads its file (SIGHUP,\n\
         `systemctl reload`); other options take effect at the next start. If the file has a mistake,\n\
         nothing is changed, and every mistake is reported with its line, its value and the expected\n\
         one.\n\n"
    );
    let sections = sections(&Config::reference());
    for section in &sections {
        let name = if section.many {
            format!("[[{}]]", section.path)
        } else {
            format!("[{}]", section.path)
        };
        let anchor: String =
            section.path.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
        page.push_str(&format!("- [`{name}`](#{anchor}): {}\n", section.doc));
    }
    for section in sections {
        let name = if section.many {
            format!("[[{}]]", section.path)
        } else {
            format!("[{}]", section.path)
        };
        page.push_str(&format!("\n## `{name}`\n\n{}", section.doc));
        if section.many {
            let live = if is_live_list(&section) { "**Live**" } else { "Not live" };
            page.push_str(&format!(
                " There may be several; none by default. {live}. Values shown are examples or \
                 defaults.\n\n"
            ));
            page.push_str(
                "| option | meaning | expected | value | unit |\n|---|---|---|---|---|\n",
            );
        } else {
            page.push_str(
                "\n\n| option | meaning | expected | default | unit | live \
                 |\n|---|---|---|---|---|---|\n",
            );
        }
        for option in &section.options {
            let default = if option.has_default {
                format!("`{}`", cell(&option.value))
            } else {
                format!("none; such as `{}`", cell(&option.value))
            };
            let (doc, expected, unit) =
                (cell(&option.doc), cell(&option.expected), unit(&option.key));
            page.push_str(&format!(
                "| `{}` | {doc} | {expected} | {default} | {unit} |",
                option.key
            ));
            if !section.many {
                page.push_str(if is_live(&section, option) { " yes |" } else { " no |" });
            }
            page.push('\n');
        }
    }
    page
}

#[test]
fn options_page_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/options.md");
    let page = page();
    if std::env::var_os("RENEW").is_some() {
        fs::write(&path, &page).expect("docs/reference can be written");
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    let at = current.lines().zip(page.lines()).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| current.lines().count().min(page.lines().count()));
    assert!(
        current == page,
        "docs/reference/options.md is out of date from line {}; renew it with: {RENEW}\n  there:  \
         {}\n  wanted: {}",
        at + 1,
        current.lines().nth(at).unwrap_or("(the end)"),
        page.lines().nth(at).unwrap_or("(the end)"),
    );
}

#[test]
fn options_page_has_every_option() {
    let page = page();
    for name in Config::option_names() {
        let (section, key) = name.rsplit_once('.').expect("section.key");
        let part = page.split("\n## `").find(|part| {
            part.starts_with(&format!("[{section}]`"))
                || part.starts_with(&format!("[[{section}]]`"))
        });
        let part = part.unwrap_or_else(|| panic!("no section for {name}"));
        assert!(part.contains(&format!("\n| `{key}` |")), "{name} is not on the page");
    }
}
