//! The packets of `forward/veth`: Interests of 58 to 100 octets with 4 to 9 components, each with a name of its own, and Data that answer them.
//! Their lengths vary, so that hardly any two in a row are equal: nothing on the way may merge them into one.

use nw_report_kit::random::splitmix64;

/// Octets of Interests.
const LENS: core::ops::RangeInclusive<usize> = 58..=100;
/// All but the middle components: packet's and name's heads, the first component, the number, nonce.
const FIXED: usize = 2 + 2 + 6 + 10 + 6;
/// Octets of a middle component.
const COMPONENT: usize = 9;

const INTEREST: u8 = 0x05;
const DATA: u8 = 0x06;
const NAME: u8 = 0x07;
const GENERIC: u8 = 0x08;
const LINK: u8 = 0x64;
const TOKEN: u8 = 0x62;
const FRAGMENT: u8 = 0x50;
/// No content; 32 octets that claim to be a digest: routers look at the form only.
const BEHIND_NAME: [u8; 2 + 5 + 2] = [0x15, 0, 0x16, 3, 0x1b, 1, 0, 0x17, 32];

/// Appends the Interest of a number.
pub fn interest(number: u64, out: &mut Vec<u8>) {
    let random = splitmix64(number);
    let len = LENS.start() + (random % (LENS.end() - LENS.start() + 1) as u64) as usize;
    let mut middle = len - FIXED;
    out.extend_from_slice(&[INTEREST, len as u8 - 2, NAME, (len - FIXED) as u8 + 16]);
    out.extend_from_slice(&[GENERIC, 4, b'v', b'e', b't', b'h']);
    while middle > 0 {
        // A component has at least its head and an octet.
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

/// Appends the Data that answers an Interest, bare or in a link packet whose token it gives back; nothing for anything else.
pub fn answer(packet: &[u8], out: &mut Vec<u8>) {
    let (token, interest) = match packet.first() {
        Some(&LINK) => taken_out(packet.get(2..).unwrap_or_default()),
        _ => (&[][..], packet),
    };
    let Some([INTEREST, _, NAME, name_len, rest @ ..]) = interest.get(..) else { return };
    let Some(name) = rest.get(..usize::from(*name_len)) else { return };
    let inner = 2 + name.len() + BEHIND_NAME.len() + 32;
    if !token.is_empty() {
        let len = 2 + token.len() + 2 + 2 + inner;
        out.extend_from_slice(&[LINK, len as u8, TOKEN, token.len() as u8]);
        out.extend_from_slice(token);
        out.extend_from_slice(&[FRAGMENT, inner as u8 + 2]);
    }
    out.extend_from_slice(&[DATA, inner as u8, NAME, *name_len]);
    out.extend_from_slice(name);
    out.extend_from_slice(&BEHIND_NAME);
    out.resize(out.len() + 32, 0);
}

/// Token and fragment of a link packet's fields, which are all short here.
fn taken_out(mut fields: &[u8]) -> (&[u8], &[u8]) {
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
    fn they_are_what_they_claim_to_be() {
        let (mut lens, mut components) = (Vec::new(), Vec::new());
        for number in 0..2000 {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            interest(number, &mut asked);
            let seen = Interest::check(&asked).unwrap();
            answer(&asked, &mut answered);
            assert_eq!(Data::check(&answered).unwrap().name(), seen.name());
            lens.push(asked.len());
            components.push(seen.name().len());
            // In a link packet with a token and another field.
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
