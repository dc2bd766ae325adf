//! Rules of style that a machine can check: words, line lengths, function lengths, empty doc
//! comments, public items without a user. `docs/develop/style.md` explains them.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Columns of a line of code or comment. `rustfmt.toml` has the same for code.
const CODE_COLUMNS_MAX: usize = 100;
/// Columns of a line of Rust in a macro such as `proptest!`, which rustfmt leaves alone.
const MACRO_COLUMNS_MAX: usize = 120;
/// Columns of a line of prose in Markdown. Tables, links and fenced blocks are not prose.
const PROSE_COLUMNS_MAX: usize = 120;
/// Lines of a function, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

/// Files below a folder of the project with one of these endings, in a fixed order.
fn files_below(folder: &Path, endings: &[&str], into: &mut Vec<PathBuf>) {
    const LEFT_OUT: [&str; 5] = ["target", "node_modules", ".git", ".venv", "corpus"];
    let mut entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
            files_below(&path, endings, into);
        } else if path.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            into.push(path);
        }
    }
}

fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files_below(&root(), endings, &mut found);
    assert!(found.len() > 5, "there are files that end in {endings:?}");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path from the project's root, as it is shown and as the lists of exceptions have it.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

/// The entries of a list in `xtask/`: one a line, fields between tabs; `#` begins a comment.
fn list(name: &str) -> Vec<Vec<String>> {
    read(&root().join("xtask").join(name))
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| line.split('\t').map(|field| field.trim().to_owned()).collect())
        .collect()
}

fn fail_with(rule: &str, found: &[String]) {
    const SHOWN_MAX: usize = 500;
    let more = found.len().saturating_sub(SHOWN_MAX);
    let lines = found.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join("\n  ");
    assert!(found.is_empty(), "{rule}: {} places\n  {lines}\n  (and {more} more)", found.len());
}

#[test]
fn lines_of_code_fit_in_their_columns() {
    let exempt = list("long-lines.txt");
    let is_exempt = |path: &str| exempt.iter().any(|entry| path.starts_with(entry[0].as_str()));
    let mut found = Vec::new();
    for path in files(&[".rs", ".c", ".h", ".py", ".mjs", ".cjs", ".ts", ".lua", ".sh"]) {
        let name = shown(&path);
        for (number, line) in (1..).zip(read(&path).lines()) {
            let trimmed = line.trim_start();
            let is_comment = ["//", "#", "*", "/*"].iter().any(|start| trimmed.starts_with(start));
            let columns_max = if name.ends_with(".rs") && !is_comment {
                MACRO_COLUMNS_MAX
            } else {
                CODE_COLUMNS_MAX
            };
            // A string that is compared or shown as a whole may be longer than the line, and a
            // drawing may be wider.
            let is_literal = line.matches(['"', '\'', '`']).count() >= 2
                || line.ends_with('\\')
                || line.contains("http");
            let is_drawing = line.contains(['─', '│', '═', '▶']);
            if line.chars().count() > columns_max && !is_literal && !is_drawing && !is_exempt(&name)
            {
                found.push(format!("{name}:{number}"));
            }
        }
    }
    fail_with("at most 100 columns of code and comments", &found);
}

#[test]
fn lines_of_prose_fit_in_their_columns() {
    let mut found = Vec::new();
    for path in files(&[".md"]).into_iter().filter(|path| {
        !["docs/log/", "docs/reference/"].iter().any(|start| shown(path).starts_with(start))
    }) {
        let mut fenced = false;
        for (number, line) in (1..).zip(read(&path).lines()) {
            fenced ^= line.trim_start().starts_with("```");
            let table_or_link =
                line.starts_with('|') || line.contains("](") || line.contains("http");
            if !fenced && !table_or_link && line.chars().count() > PROSE_COLUMNS_MAX {
                found.push(format!("{}:{number}", shown(&path)));
            }
        }
    }
    fail_with("at most 120 columns of prose", &found);
}

/// Markdown text without its fenced blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    };
    text.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// The names by which links lead to the headings of a Markdown text.
fn heading_anchors(text: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    prose(text)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn links_between_documents_lead_to_files_and_headings() {
    let mut found = Vec::new();
    for path in files(&[".md"]) {
        let (text, folder) = (read(&path), path.parent().expect("a folder"));
        for target in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { path.clone() } else { folder.join(file) };
            let is_page = to.extension().is_some_and(|ending| ending == "md");
            let leads = to.exists()
                && (anchor.is_empty() || !is_page || heading_anchors(&read(&to)).contains(anchor));
            if !leads {
                found.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    fail_with("links lead to files and headings that exist", &found);
}

/// A word of the list with its replacement. An entry that begins with a capital letter or holds an
/// underscore is an identifier, matched as it is; any other is a word of prose, matched in any
/// case.
struct Retired {
    word: String,
    replacement: String,
    /// Only paths that begin so; empty for all.
    below: String,
}

fn retired() -> Vec<Retired> {
    let entry = |fields: Vec<String>| Retired {
        word: fields[0].clone(),
        replacement: fields.get(1).cloned().unwrap_or_default(),
        below: fields.get(2).cloned().unwrap_or_default(),
    };
    list("retired-words.txt").into_iter().map(entry).collect()
}

/// Returns whether a text has a phrase, not as part of other words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !is_inside(before.chars().next_back()) && !is_inside(after.chars().next())
    })
}

/// The words of a text: runs of letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn retired_words_are_not_used() {
    let retired = retired();
    assert!(retired.len() > 50, "the list has its entries");
    let endings = [".rs", ".c", ".h", ".py", ".mjs", ".cjs", ".md", ".lua", ".sh", ".toml"];
    let mut found = Vec::new();
    for path in files(&endings) {
        let name = shown(&path);
        // The changelog names old words; the log is kept as it was written.
        let is_exempt = ["xtask/", "docs/log/", "docs/reference/", "CHANGELOG.md"]
            .iter()
            .any(|start| name.starts_with(start));
        if is_exempt {
            continue;
        }
        let mut is_marked_before = false;
        for (number, line) in (1..).zip(read(&path).lines()) {
            // An old word that must stay is marked on its line or on the line before.
            let is_marked = line.contains("(retired word)");
            if core::mem::replace(&mut is_marked_before, is_marked) || is_marked {
                continue;
            }
            // `octets` is a method of the standard library's addresses.
            let line = &line.replace(".octets()", "");
            let present: BTreeSet<&str> = words(line).collect();
            let lower = line.to_lowercase();
            let lower_words: BTreeSet<&str> = words(&lower).collect();
            for entry in retired.iter().filter(|entry| name.starts_with(&entry.below)) {
                let word = entry.word.as_str();
                let is_identifier = word.contains('_') || word.starts_with(char::is_uppercase);
                let is_there = match (is_identifier, word.contains(' ')) {
                    (_, true) => has_phrase(&lower, word),
                    (true, false) => present.contains(word),
                    (false, false) => lower_words.contains(word),
                };
                if is_there {
                    found.push(format!("{name}:{number}: {word} (write: {})", entry.replacement));
                }
            }
        }
    }
    fail_with("words that xtask/retired-words.txt replaces", &found);
}

/// Sources of the workspace, parsed.
fn syntax() -> Vec<(String, syn::File)> {
    let parse = |path: PathBuf| {
        let file =
            syn::parse_file(&read(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (shown(&path), file)
    };
    files(&[".rs"]).into_iter().map(parse).collect()
}

/// Finds functions that are too long, and doc comments that say nothing.
struct Reader<'a> {
    path: &'a str,
    long: Vec<String>,
    empty: Vec<String>,
}

impl Reader<'_> {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            self.long.push(format!("{}\t{}\t{lines} lines", self.path, signature.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        const EMPTY: [&str; 12] = [
            "See the module.",
            "Why.",
            "Its name.",
            "Which.",
            "Likewise.",
            "What.",
            "Whose.",
            "Who.",
            "Where.",
            "When.",
            "The same.",
            "See above.",
        ];
        if let syn::Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("doc")
            && let syn::Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(text) = &literal.lit
            && EMPTY.contains(&text.value().trim())
        {
            let line = attribute.span().start().line;
            self.empty.push(format!("{}:{line}: {}", self.path, text.value().trim()));
        }
    }
}

#[test]
fn functions_fit_a_screen_and_doc_comments_say_something() {
    let exempt = list("long-functions.txt");
    let (mut long, mut empty) = (Vec::new(), Vec::new());
    for (path, file) in &syntax() {
        let mut reader = Reader { path, long: Vec::new(), empty: Vec::new() };
        reader.visit_file(file);
        let is_exempt = |line: &String| {
            exempt.iter().any(|entry| line.starts_with(&format!("{}\t{}\t", entry[0], entry[1])))
        };
        long.extend(reader.long.into_iter().filter(|line| !is_exempt(line)));
        empty.extend(reader.empty);
    }
    fail_with("at most 70 lines a function (xtask/long-functions.txt has the exceptions)", &long);
    fail_with("doc comments that say nothing", &empty);
}

fn count_identifiers(tokens: TokenStream, into: &mut BTreeMap<String, u32>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => *into.entry(word.to_string()).or_default() += 1,
            TokenTree::Group(group) => count_identifiers(group.stream(), into),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Finds the names of public items.
#[derive(Default)]
struct Publics(Vec<String>);

impl Publics {
    fn add(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.0.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Publics {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.vis, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.vis, &item.sig.ident);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.vis, &item.ident);
    }
}

#[test]
fn public_items_have_users() {
    let exempt = list("unused-items.txt");
    let mut counts = BTreeMap::new();
    let mut publics = Vec::new();
    for (path, file) in &syntax() {
        let tokens: TokenStream = read(&root().join(path)).parse().expect("tokens");
        count_identifiers(tokens, &mut counts);
        if path.starts_with("crates/") && path.contains("/src/") {
            let mut items = Publics::default();
            items.visit_file(file);
            publics.extend(items.0.into_iter().map(|name| (path.clone(), name)));
        }
    }
    let found: Vec<String> = publics
        .into_iter()
        .filter(|(_, name)| counts.get(name).copied().unwrap_or(0) <= 1)
        .filter(|(path, name)| !exempt.iter().any(|entry| entry[0] == *path && entry[1] == *name))
        .map(|(path, name)| format!("{path}: {name}"))
        .collect();
    fail_with("public items that nothing uses (xtask/unused-items.txt has the exceptions)", &found);
}
