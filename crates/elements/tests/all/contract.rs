//! Each element file opens with its contract, which must name the element's ports and drop causes.

use nw_element_api::{Element, Port};
use nw_elements::{
    BackwardRouter, ContentStore, Counter, LipsinForwarder, NameFilter, NameRouter,
    PacketDispatcher, RateLimiter, Router, SignatureVerifier, Sink, StrategyForwarder, Tee,
};
use std::path::{Path, PathBuf};

const LINES: [&str; 9] =
    ["In:", "Out:", "Needs:", "Sets:", "State:", "Timers:", "Cost:", "Drops:", "Spec:"];

/// File, input and output ports of each element.
fn elements() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    fn ports<E: Element>(
        file: &'static str,
    ) -> (&'static str, Vec<&'static str>, Vec<&'static str>) {
        let ins = E::In::ALL.iter().map(|port| port.name()).collect();
        (file, ins, E::Out::ALL.iter().map(|port| port.name()).collect())
    }
    vec![
        ports::<BackwardRouter>("backward_router.rs"),
        ports::<ContentStore>("content_store.rs"),
        ports::<Counter>("counter.rs"),
        ports::<LipsinForwarder>("lipsin_forwarder/mod.rs"),
        ports::<NameFilter>("name_filter/mod.rs"),
        ports::<NameRouter>("name_router.rs"),
        ports::<PacketDispatcher>("packet_dispatcher.rs"),
        ports::<RateLimiter>("rate_limiter/mod.rs"),
        ports::<Router>("router/mod.rs"),
        ports::<SignatureVerifier>("signature_verifier/mod.rs"),
        ports::<Sink>("sink.rs"),
        ports::<StrategyForwarder>("strategy_forwarder.rs"),
        ports::<Tee>("tee.rs"),
    ]
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the entries of the first fenced block, by key; a line that starts with a blank continues
/// the entry.
fn contract(text: &str) -> Vec<(String, String)> {
    let docs = text.lines().map_while(|line| line.strip_prefix("//!"));
    let block =
        docs.skip_while(|line| *line != " ```text").skip(1).take_while(|line| *line != " ```");
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in block {
        let line = line.strip_prefix(' ').unwrap_or(line);
        match line.split_once(' ') {
            Some((key, rest)) if !key.is_empty() => {
                entries.push((key.to_owned(), rest.trim().to_owned()))
            }
            _ => entries
                .last_mut()
                .expect("a block starts with In:")
                .1
                .push_str(&format!(" {}", line.trim())),
        }
    }
    entries
}

/// Args between commas; `none` is no word.
fn list(text: &str) -> Vec<&str> {
    text.split(", ").filter(|word| *word != "none").collect()
}

#[test]
fn contract_has_all_lines_and_names_the_ports() {
    for (file, ins, outs) in elements() {
        let text = std::fs::read_to_string(source().join(file)).expect(file);
        let contract = contract(&text);
        let keys: Vec<&str> = contract.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, LINES, "{file}: the lines of its contract");
        for (key, text) in &contract {
            assert!(!text.is_empty(), "{file}: {key} says nothing");
        }
        assert_eq!(list(&contract[0].1), ins, "{file}: In:");
        assert_eq!(list(&contract[1].1), outs, "{file}: Out:");
    }
}

/// Drop causes named in a contract exist, and causes used in its files are named.
#[test]
fn contract_names_the_drop_causes() {
    let counters = nw_element_api::DropCounters::default();
    let known: Vec<(String, &str)> =
        nw_element_api::DropCause::ALL.iter().map(|c| (format!("{c:?}"), c.as_str())).collect();
    let malformed: Vec<String> =
        counters.iter().map(|(reason, _)| format!("malformed_{}", reason.as_str())).collect();
    for (file, ..) in elements() {
        let path = source().join(file);
        let text = std::fs::read_to_string(&path).expect(file);
        let entries = contract(&text);
        let (_, drops) = entries.iter().find(|(key, _)| key == "Drops:").expect("checked above");
        let mut named = Vec::new();
        let mut plain = drops.clone();
        // Text in parentheses is an explanation.
        while let (Some(from), Some(to)) = (plain.find(" ("), plain.find(')')) {
            plain.replace_range(from..=to, "");
        }
        for word in list(&plain) {
            let is_known = known.iter().any(|(_, name)| *name == word)
                || malformed.iter().any(|name| name == word);
            assert!(is_known, "{file}: no reason is called {word:?}");
            named.push(word.to_owned());
        }
        let files = if file.ends_with("mod.rs") {
            rust_files(path.parent().expect("a folder"))
        } else {
            vec![path]
        };
        for used in files {
            let text = std::fs::read_to_string(&used).expect("a source file");
            for (variant, name) in &known {
                let uses =
                    text.match_indices(&format!("DropCause::{variant}")).any(|(at, found)| {
                        !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric())
                    });
                assert!(
                    !uses || named.contains(&(*name).to_owned()),
                    "{}: {name} is not in the contract",
                    used.display()
                );
            }
        }
    }
}

#[test]
fn every_element_is_listed_here() {
    let known = elements();
    for path in rust_files(&source()) {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let file = path.strip_prefix(source()).expect("under src").to_string_lossy().into_owned();
        if text.contains("impl Element for") {
            assert!(
                known.iter().any(|(known, ..)| *known == file),
                "{file} has an element that this test does not know"
            );
        }
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
