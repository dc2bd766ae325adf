//! The packets of `forward/veth`: Interests of 58 to 100 bytes with 4 to 9 components and unique
//! names, and Data that answer them. Their lengths vary, so that few neighbours are equal and can
//! be merged on the way.

use nw_packet_types::random::splitmix64;

/// Lengths of Interests in bytes.
const LENS: core::ops::RangeInclusive<usize> = 58..=100;
/// Bytes outside the inner components: packet and name headers, first component, number, nonce.
const FIXED: usize = 2 + 2 + 6 + 10 + 6;
/// Bytes of an inner component.
const COMPONENT: usize = 9;

const INTEREST: u8 = 0x05;
const DATA: u8 = 0x06;
const NAME: u8 = 0x07;
const GENERIC: u8 = 0x08;
const LINK: u8 = 0x64;
const TOKEN: u8 = 0x62;
const FRAGMENT: u8 = 0x50;
/// Elements after the name: empty Content, SignatureInfo, and the head of a SignatureValue of 32
/// bytes.
const AFTER_NAME: [u8; 2 + 5 + 2] = [0x15, 0, 0x16, 3, 0x1b, 1, 0, 0x17, 32];

/// Appends the Interest of this number.
pub fn interest(number: u64, out: &mut Vec<u8>) {
    let random = splitmix64(number);
    let len = LENS.start() + (random % (LENS.end() - LENS.start() + 1) as u64) as usize;
    let mut middle = len - FIXED;
    out.extend_from_slice(&[INTEREST, len as u8 - 2, NAME, (len - FIXED) as u8 + 16]);
    out.extend_from_slice(&[GENERIC, 4, b'v', b'e', b't', b'h']);
    while middle > 0 {
        // A component has at least its header and one byte.
        let take = if middle <= COMPONENT + 2 { middle } else { COMPONENT };
        out.extend_from_slice(&[GENERIC, take as u8 - 2]);
        out.resize(out.len() + take - 2, b'a' + (middle % 26) as u8);
        middle -= take;
    }
    out.extend_from_slice(&[GENERIC, 8]);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[0x0a, 4]);
    out.extend_from_slice(&random.to_be_bytes()[..4]);
}

/// Appends the Data for an Interest, bare or in an LpPacket whose PIT token it returns. Other
/// packets are ignored.
pub fn answer(packet: &[u8], out: &mut Vec<u8>) {
    let (token, interest) = match packet.first() {
        Some(&LINK) => token_and_fragment(packet.get(2..).unwrap_or_default()),
        _ => (&[][..], packet),
    };
    let Some([INTEREST, _, NAME, name_len, rest @ ..]) = interest.get(..) else { return };
    let Some(name) = rest.get(..usize::from(*name_len)) else { return };
    let inner = 2 + name.len() + AFTER_NAME.len() + 32;
    if !token.is_empty() {
        let len = 2 + token.len() + 2 + 2 + inner;
        out.extend_from_slice(&[LINK, len as u8, TOKEN, token.len() as u8]);
        out.extend_from_slice(token);
        out.extend_from_slice(&[FRAGMENT, inner as u8 + 2]);
    }
    out.extend_from_slice(&[DATA, inner as u8, NAME, *name_len]);
    out.extend_from_slice(name);
    out.extend_from_slice(&AFTER_NAME);
    out.resize(out.len() + 32, 0);
}

/// Returns the PIT token and the fragment of an LpPacket's fields, which are all short here.
fn token_and_fragment(mut fields: &[u8]) -> (&[u8], &[u8]) {
    let (mut token, mut fragment) = (&[][..], &[][..]);
    while let [typ, len, rest @ ..] = fields {
        let Some((value, rest)) = rest.split_at_checked(usize::from(*len)) else { break };
        match *typ {
            TOKEN => token = value,
            FRAGMENT => fragment = value,
            _ => {}
        }
        fields = rest;
    }
    (token, fragment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{Data, Interest, LpPacket};

    #[test]
    fn packets_are_valid_and_answer_matches() {
        let (mut lens, mut components) = (Vec::new(), Vec::new());
        for number in 0..2000 {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            interest(number, &mut asked);
            let seen = Interest::check(&asked).unwrap();
            answer(&asked, &mut answered);
            assert_eq!(Data::check(&answered).unwrap().name(), seen.name());
            lens.push(asked.len());
            components.push(seen.name().len());
            // In an LpPacket with a token and another field.
            let link = [
                &[
                    LINK,
                    asked.len() as u8 + 11,
                    TOKEN,
                    2,
                    7,
                    9,
                    0xfd & 0x53,
                    1,
                    1,
                    FRAGMENT,
                    asked.len() as u8,
                ][..],
                &asked,
            ]
            .concat();
            let mut link = link;
            link[1] = (link.len() - 2) as u8;
            answered.clear();
            answer(&link, &mut answered);
            let packet = LpPacket::check(&answered).unwrap();
            assert_eq!(packet.pit_token.as_bytes(), [7, 9]);
            assert_eq!(Data::check(packet.fragment.unwrap()).unwrap().name(), seen.name());
        }
        assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&58), Some(&100)));
        assert!(components.iter().all(|c| (4..=11).contains(c)), "{:?}", components.iter().max());
        let in_a_row = lens.windows(2).filter(|two| two[0] == two[1]).count();
        assert!(in_a_row < lens.len() / 20, "{in_a_row} equal ones in a row");
        let mut nothing = Vec::new();
        for bytes in [&b""[..], &[LINK], &[LINK, 2, FRAGMENT, 9], &[INTEREST, 2, NAME, 200]] {
            answer(bytes, &mut nothing);
        }
        assert!(nothing.is_empty());
    }
}
