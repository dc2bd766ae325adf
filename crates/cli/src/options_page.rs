//! The manual page nw.toml(5), generated from the declarations of all options.

use nw_api::config::{Config, SectionText};
use std::fmt::Write;

/// Returns the page as roff.
pub fn page() -> String {
    let mut page = String::from(
        ".TH NW.TOML 5\n.SH NAME\nnw.toml \\- configuration of a Namewire router\n.SH SYNOPSIS\n.nf\n\
         ~/.config/namewire/nw.toml\n/etc/namewire/nw.toml\n.fi\n.SH DESCRIPTION\n",
    );
    text(
        "A TOML file, read by nw run. Every option has a default, so a file needs only the options \
         that differ. If the file has a mistake, nothing is changed, and all mistakes are reported \
         with their lines. nw config prints all options, nw config --check FILE checks a file. \
         SIGHUP reloads the file; the router logs which changed options need a restart.",
        &mut page,
    );
    page.push_str(".SH SECTIONS\n");
    for section in Config::sections() {
        write_section(&section, &mut page);
    }
    page.push_str(
        ".SH EXAMPLES\nA link to a neighbour, and a strategy for one prefix:\n.PP\n.nf\n",
    );
    let example = "[[face]]\nuri = \"udp4://192.0.2.1:6363\"\npersistency = \"permanent\"\n\n\
                   [[route]]\nprefix = \"/\"\nface = \"udp4://192.0.2.1:6363\"\n\n\
                   [[strategy]]\nprefix = \"/sync\"\nstrategy = \"multicast\"\n";
    example.lines().for_each(|line| page.push_str(&format!("{}\n", escape(line))));
    page.push_str(".fi\n.SH SEE ALSO\nnw(1), nw\\-run(1), nw\\-config(1)\n");
    page
}

fn write_section(section: &SectionText, page: &mut String) {
    let name =
        if section.many { format!("[[{}]]", section.path) } else { format!("[{}]", section.path) };
    let _ = writeln!(page, ".SS {}", escape(&name));
    text(&section.doc.join(""), page);
    for option in &section.options {
        let value = match (&option.default, option.example) {
            (Some(default), _) => format!(" = {default}"),
            (None, Some(example)) => format!(" (no default; such as {example})"),
            (None, None) => String::new(),
        };
        let _ = writeln!(page, ".TP\n\\fB{}\\fR{}", escape(option.key), escape(&value));
        text(&format!("{} Expected: {}.", option.doc.join("").trim(), option.expected), page);
    }
}

fn text(text: &str, page: &mut String) {
    let _ = writeln!(page, "{}", escape(text.trim()));
}

/// Escapes text so that roff prints it unchanged.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    // These characters begin a request at the beginning of a line.
    let guard = if escaped.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{escaped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_every_option_and_no_accidental_request() {
        let page = page();
        for name in Config::option_names() {
            let (section, key) = name.rsplit_once('.').unwrap();
            let part = page
                .split(".SS ")
                .find(|part| part.trim_start_matches('[').starts_with(&format!("{section}]")));
            assert!(part.is_some_and(|part| part.contains(&format!("\\fB{key}\\fR"))), "{name}");
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(
                [".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"]
                    .iter()
                    .any(|known| line.starts_with(known)),
                "{line}"
            );
        }
    }
}
