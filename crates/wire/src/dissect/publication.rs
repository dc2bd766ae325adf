//! The fields of a publication, which are not TLV elements.

use super::{Line, Value};
use crate::publication::{
    Envelope, EnvelopeKind, FID_LEN, IdRef, LABEL_LEN, LINK_NOTIFICATION_SCOPE, LINK_REPORT_SCOPE,
    Label, Message, NODE_SCOPE, RENDEZVOUS_SCOPE, STAGE_HEAD_LEN, StagedFilter, TOPOLOGY_SCOPE,
};
use nw_name::tlv::{Tlv, push_tlv};
use std::collections::VecDeque;

/// Returns the lines of the fields, or one line with the fault for which the packet is refused.
pub(super) fn fields<'a>(element: &Tlv<'a>, depth: usize, bytes_max: usize) -> VecDeque<Line<'a>> {
    let mut lines = Lines { element: *element, depth, bytes_max, lines: VecDeque::new() };
    // The check expects the packet to start at offset 0, with its type and length.
    let mut wire = Vec::with_capacity(element.value.len() + 10);
    push_tlv(element.typ, element.value, &mut wire);
    match Envelope::check(&wire) {
        Ok(envelope) => lines.envelope(&envelope),
        Err(error) => lines.add(error.offset, "", Value::Fault(error.fault)),
    }
    lines.lines
}

struct Lines<'a> {
    element: Tlv<'a>,
    depth: usize,
    bytes_max: usize,
    lines: VecDeque<Line<'a>>,
}

impl<'a> Lines<'a> {
    /// Adds a line. `at` is the offset in the value.
    fn add(&mut self, at: usize, name: &'static str, value: Value<'a>) {
        let offset = self.element.value_start + at;
        self.lines.push_back(Line { depth: self.depth, offset, typ: None, name, len: 0, value });
    }

    /// Adds a line with bytes of the value.
    fn add_bytes(&mut self, at: usize, name: &'static str, len: usize) {
        let value = self.element.value;
        let shown = len.min(self.bytes_max.max(FID_LEN));
        self.add(at, name, Value::Bytes(&value[at..at + shown], shown < len));
    }

    fn envelope(&mut self, envelope: &Envelope<'_>) {
        let kind = match envelope.kind() {
            EnvelopeKind::Publication => "publication",
            EnvelopeKind::Control => "control",
        };
        self.add(1, "kind", Value::Word(envelope.kind() as u64, kind));
        self.add(3, "hop limit", Value::Number(u64::from(envelope.hop_limit()), ""));
        self.add(4, "class", Value::Number(u64::from(envelope.class()), ""));
        self.add(5, "table", Value::Number(u64::from(envelope.table()), ""));
        let mut at = 8 + FID_LEN;
        match envelope.staged() {
            None => self.add_bytes(8, "forwarding identifier", FID_LEN),
            Some(staged) => {
                self.stages(&staged);
                at += 4 * usize::from(self.element.value[7]);
            }
        }
        if let Some(stream) = envelope.stream() {
            self.add_bytes(at, "source", LABEL_LEN);
            self.add(at + 8, "sequence", Value::Number(stream.sequence, ""));
            at += 16;
        }
        if let Some(fragment) = envelope.fragment() {
            self.add(at, "fragment", Value::Number(u64::from(fragment.index), ""));
            self.add(at + 4, "fragments", Value::Number(u64::from(fragment.count), ""));
            self.add(at + 8, "total length", Value::Number(fragment.total_len, "bytes"));
            at += 16;
        }
        for id in envelope.ids().iter() {
            let len = id.labels().len() * LABEL_LEN;
            self.add_bytes(at + 1, id_name(id), len);
            at += 1 + len;
        }
        let len = envelope.payload().len();
        self.add_bytes(at, payload_name(envelope), len);
    }
}

impl Lines<'_> {
    fn stages(&mut self, staged: &StagedFilter<'_>) {
        self.add(8, "stages", Value::Number(u64::from(staged.stages()), ""));
        let mut at = 9;
        for stage in staged.iter() {
            self.add(at + 1, "bits of a link", Value::Number(u64::from(stage.ones), ""));
            self.add(at + 1, "seed", Value::Number(u64::from(stage.seed), ""));
            at += STAGE_HEAD_LEN;
            self.add_bytes(at, "filter of the stage", stage.bits.len());
            at += stage.bits.len();
        }
    }
}

/// Returns the name of an identifier's line, which tells reserved scopes.
fn id_name(id: IdRef<'_>) -> &'static str {
    const SCOPES: [(Label, &str); 5] = [
        (RENDEZVOUS_SCOPE, "identifier (requests to the rendezvous function)"),
        (TOPOLOGY_SCOPE, "identifier (requests to the topology function)"),
        (NODE_SCOPE, "identifier (notices to a node)"),
        (LINK_REPORT_SCOPE, "identifier (link state reports)"),
        (LINK_NOTIFICATION_SCOPE, "identifier (links that appear and disappear)"),
    ];
    let first = id.labels().next();
    SCOPES.iter().find(|(label, _)| Some(*label) == first).map_or("identifier", |(_, name)| name)
}

/// Returns the name of the payload's line, which tells the kind of a control message.
fn payload_name(envelope: &Envelope<'_>) -> &'static str {
    if envelope.kind() == EnvelopeKind::Publication {
        return "payload";
    }
    match Message::parse(envelope.payload()) {
        Ok(Message::Request(_)) => "request",
        Ok(Message::Reply(_)) => "reply",
        Ok(Message::Delivery(_)) => "delivery",
        Ok(Message::Scope { .. }) => "scope notice",
        Ok(Message::Repair(_)) => "repair request",
        Ok(Message::Advertisement(_)) => "link advertisement",
        Ok(Message::Assignment(_)) => "link identifiers",
        Ok(Message::Hello { .. }) => "hello",
        Err(_) => "other message",
    }
}

#[cfg(test)]
mod tests {
    use crate::dissect::{Options, dissect};
    use crate::publication::{
        EnvelopeBuilder, EnvelopeKind, Fid, Id, Label, Message, StagedFilter,
    };

    fn text(bytes: &[u8]) -> String {
        let mut out = String::new();
        dissect(bytes, &mut out, Options::default()).expect("a string takes all");
        out
    }

    #[test]
    fn fields_of_a_publication_are_shown_by_name() {
        let (mut hello, mut wire) = (Vec::new(), Vec::new());
        Message::Hello { node: Label([b'1'; 8]), roles: 1 }.encode(&mut hello).expect("short");
        let ids = [Id::new(vec![Label([0xff; 8]), Label::from_number(3)])];
        let kind = EnvelopeKind::Control;
        EnvelopeBuilder {
            kind,
            hop_limit: 7,
            fid: Fid::of_bit(0),
            ids: &ids,
            payload: &hello,
            ..Default::default()
        }
        .encode(&mut wire)
        .expect("short");
        let shown = text(&wire);
        for part in [
            "0  Publication (176), 67 bytes",
            "3    kind: 1 (control)",
            "5    hop limit: 7",
            "10    forwarding identifier: 0100000000",
            "43    identifier (requests to the rendezvous function): ffffffffffffffff0000000000000003",
            "59    hello: 08",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
        wire[2] = 9;
        assert!(text(&wire).contains("!! field_value"), "{}", text(&wire));
    }

    #[test]
    fn stages_of_an_identifier_are_shown_one_by_one() {
        let bytes = [&[2, 3, 0x21, 0xaa, 0xbb, 0xcc, 40, 0x3f][..], &[0x11; 40]].concat();
        let staged = StagedFilter::check(&bytes).ok();
        let mut wire = Vec::new();
        EnvelopeBuilder { staged, payload: b"x", ..Default::default() }
            .encode(&mut wire)
            .expect("short");
        let shown = text(&wire);
        for part in [
            "10    stages: 2",
            "12    bits of a link: 7",
            "12    seed: 1",
            "13    filter of the stage: aabbcc",
            "17    bits of a link: 8",
            "17    seed: 15",
            "18    filter of the stage: 1111",
            "58    payload: 78",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }
}
