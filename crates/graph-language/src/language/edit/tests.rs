//! Edits: what they change, and that nothing else changes.

use super::*;

const TEXT: &str = "# A chain.\n\
host here = process   # this machine\n\
face in listens unix:///tmp/in.sock\n\
face out = unix:///tmp/out.sock\n\
pd = packet_dispatcher\n\
cs = content_store(\n    mib = 64,  # small\n)\n\
br = backward_router\n\
in -> pd.packet   # all packets\n\
pd.interest -> cs.interest\n\
cs.miss -> br.interest ->\n    faces\n\
cs.hit -> faces\n\
out -> br.data -> cs.data -> faces\n\
service front { pd, cs }\n\
service back quota=50% { br }  # alone\n\
scale back 1..3\n";

fn edited(edits: &[Edit]) -> String {
    edits.iter().fold(TEXT.to_owned(), |text, step| edit(&text, step).unwrap())
}

fn changed_lines(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (old, new): (Vec<_>, Vec<_>) = (TEXT.lines().collect(), text.lines().collect());
    (
        old.iter().copied().filter(|line| !new.contains(line)).collect(),
        new.iter().copied().filter(|line| !old.contains(line)).collect(),
    )
}

#[test]
fn added_parts_are_written_beside_those_of_their_kind() {
    let text = edited(&[
        Edit::AddElement("nf".into(), "name_filter".into()),
        Edit::AddFace("more".into(), "udp4://192.0.2.1:6363".into(), false),
        Edit::Connect("pd.data".into(), "br.data".into()),
        Edit::AddService("filter".into(), vec!["nf".into()]),
    ]);
    let (removed, added) = changed_lines(&text);
    assert_eq!(removed, Vec::<&str>::new());
    let expected = [
        "face more = udp4://192.0.2.1:6363",
        "nf = name_filter",
        "pd.data -> br.data",
        "service filter { nf }",
    ];
    assert_eq!(added, expected);
    assert!(text.contains("br = backward_router\nnf = name_filter\n"));
    assert!(text.contains("# alone\nservice filter { nf }\nscale back"));
}

#[test]
fn removed_element_leaves_the_rest_of_its_chains() {
    let text = edited(&[Edit::Remove("cs".into())]);
    let (removed, added) = changed_lines(&text);
    assert_eq!(added, ["br.interest ->", "out -> br.data", "service front { pd }"]);
    assert!(removed.contains(&"pd.interest -> cs.interest"));
    assert!(!text.contains("mib"), "a declaration of several lines");
    assert!(text.contains("in -> pd.packet   # all packets\n"));
}

#[test]
fn removed_last_member_removes_its_service_and_scale() {
    let text = edited(&[Edit::Remove("br".into())]);
    assert!(!text.contains("back"), "{text}");
    assert!(text.contains("cs.data -> faces"));
    assert!(!text.contains("cs.miss"));
}

#[test]
fn removed_connection_splits_its_chain() {
    let text = edited(&[Edit::Disconnect("br.data".into(), "cs.data".into())]);
    let (removed, added) = changed_lines(&text);
    assert_eq!(removed, ["out -> br.data -> cs.data -> faces"]);
    assert_eq!(added, ["out -> br.data", "cs.data -> faces"]);
    let gone = edit(TEXT, &Edit::Disconnect("br.data".into(), "pd.packet".into()));
    assert_eq!(gone.unwrap_err().to_string(), "there is no connection br.data -> pd.packet");
}

#[test]
fn member_moves_between_services() {
    let text = edited(&[Edit::Assign("pd".into(), Some("back".into()))]);
    let (_, added) = changed_lines(&text);
    assert_eq!(added, ["service front { cs }", "service back quota=50% { br, pd }  # alone"]);
    let text = edited(&[Edit::RemoveService("front".into())]);
    assert_eq!(changed_lines(&text).0, ["service front { pd, cs }"]);
}

#[test]
fn faulty_edits_are_refused_with_a_reason() {
    for (wrong, reason) in [
        (Edit::AddElement("cs".into(), "name_filter".into()), "taken"),
        (Edit::AddElement("a b".into(), "name_filter".into()), "not a name"),
        (Edit::AddElement("a".into(), "nothing".into()), "no element"),
        (Edit::AddFace("f".into(), "udp4://a b".into(), true), "not an address"),
        (Edit::Connect("a -> b".into(), "c".into()), "not ELEMENT.PORT"),
        (Edit::AddService("front".into(), vec!["br".into()]), "already"),
        (Edit::AddService("new".into(), vec![]), "at least one"),
        (Edit::Assign("pd".into(), Some("nowhere".into())), "no service"),
        (Edit::Remove("nothing".into()), "nothing is called"),
    ] {
        let refused = edit(TEXT, &wrong).unwrap_err().to_string();
        assert!(refused.contains(reason), "{wrong:?}: {refused}");
    }
}

#[test]
fn edits_of_any_text_do_not_panic_and_keep_it_readable() {
    // Every prefix of the text, as a person types it.
    let edits = [
        Edit::Remove("cs".into()),
        Edit::Disconnect("cs.hit".into(), "faces".into()),
        Edit::Assign("br".into(), None),
        Edit::AddElement("x".into(), "name_filter".into()),
    ];
    for len in 0..=TEXT.len() {
        for step in &edits {
            if let Ok(text) = edit(&TEXT[..len], step) {
                GraphFile::examine(&text);
            }
        }
    }
}
