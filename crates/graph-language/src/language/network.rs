//! Statements about a network: hosts, services, bounds, links, order, trust, defence, routes.
//!
//! ```text
//! host NAME = process | docker [agent] [address=IP] [cores=N] [mib=N] [image=NAME] [ports=A..B]
//! service NAME [on HOST] [quota=67%] { ELEMENT, FACE, … }
//! scale NAME 1..4 [target=70%] [low=20%] [tolerance=10%] [hold=5s] [cool=20s] [by=name] [depth=N]
//! link A -> B [over unix|shm|tcp|udp] [cost=N]
//! insert make-before-break | buffer | drop
//! trust { anchor "FILE"   allow "/site/<who>/<..>" by "/site/<who>/KEY/<_>" }
//! defend poisoning | flooding [watch=A,B] [fall=20%] [period=2s] [quiet=10] …
//! route /PREFIX at ELEMENT.FACE [cost=N]
//! ```
//!
//! The words are keywords only where such a statement begins: elements and faces may have these
//! names.

use super::Parser;
use super::scanner::Scanner;
use crate::network::*;
use crate::suggest::suggest;
use crate::{Position, Problem};

/// Most statements about a network, members of services included.
const ITEMS_MAX: usize = 16_384;

const KEYWORDS: [&str; 8] =
    ["host", "service", "scale", "link", "insert", "trust", "defend", "route"];

/// Returns whether `word`, followed by `next`, begins a statement about a network.
pub(super) fn begins(word: &str, next: char) -> bool {
    let is_name = next.is_ascii_alphabetic() || next == '_';
    let begins = match word {
        "trust" => next == '{',
        "route" => next == '/' || is_name,
        _ => is_name,
    };
    begins && KEYWORDS.contains(&word)
}

impl<'a> Parser<'a> {
    /// Parses one statement, from the word after the keyword on.
    pub(super) fn network_statement(
        &mut self,
        keyword: &str,
        position: Position,
        scanner: &mut Scanner<'a>,
    ) -> Result<(), Problem> {
        self.network_items += 1;
        if self.network_items > ITEMS_MAX {
            let what = format!("more than {ITEMS_MAX} statements about the network");
            return Err(Problem::new(position, what, "split it into two networks"));
        }
        match keyword {
            "host" => self.host(position, scanner),
            "service" => self.service(position, scanner),
            "scale" => self.scale(position, scanner),
            "link" => self.link(position, scanner),
            "insert" => self.insert(position, scanner),
            "trust" => self.trust(scanner),
            "defend" => self.defend(position, scanner),
            _ => self.route(position, scanner),
        }
    }

    fn host(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let name = expect_name(scanner, "host", HOST)?.to_owned();
        scanner.skip_blank();
        let at = scanner.position();
        if !scanner.eat("=") {
            let what = format!("{} after a host's name", scanner.next_token());
            return Err(Problem::new(at, what, HOST));
        }
        scanner.skip_blank();
        let engine = expect_one_of(scanner, "engine", &EngineKind::NAMES)?;
        let mut host = Host {
            name,
            engine,
            is_remote: false,
            address: None,
            cores: None,
            memory_mib: None,
            image: None,
            ports: LINK_PORTS_DEFAULT,
            position,
        };
        let names = ["agent", "address", "cores", "mib", "image", "ports"];
        self.options(scanner, &names, HOST, |key, value| {
            match key {
                "agent" => host.is_remote = flag(value)?,
                "address" => {
                    let parsed =
                        value.parse().map_err(|_| "an address is 192.0.2.1 or 2001:db8::1");
                    host.address = Some(parsed?);
                }
                "cores" => host.cores = Some(decimal(value, 0.01, 1024.0)?),
                "mib" => host.memory_mib = Some(integer(value, 1, 1 << 24)?),
                "image" => host.image = Some(value.to_owned()),
                _ => {
                    let (first, last) = range(value)?;
                    let port = |port: u64| u16::try_from(port).map_err(|_| PORTS.to_owned());
                    host.ports = (port(first)?, port(last)?);
                    if first == 0 || first > last {
                        return Err(PORTS.to_owned());
                    }
                }
            }
            Ok(())
        });
        self.file.network.hosts.push(host);
        Ok(())
    }

    fn service(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let name = expect_name(scanner, "service", SERVICE)?.to_owned();
        let mut service =
            Service { name, host: None, quota_cores: None, members: Vec::new(), position };
        loop {
            scanner.skip_blank();
            let at = scanner.position();
            if scanner.eat("{") {
                break;
            }
            let word = match scanner.peek() {
                None | Some('\n') => {
                    return Err(Problem::new(at, "a service without members", SERVICE));
                }
                Some(_) => scanner.option_word(),
            };
            match word.split_once('=') {
                None if word == "on" && service.host.is_none() => {
                    scanner.skip_blank();
                    service.host = Some(expect_name(scanner, "host", SERVICE)?.to_owned());
                }
                Some(("quota", value)) => match share(value, 1024.0) {
                    Ok(cores) if cores >= 0.01 => service.quota_cores = Some(cores),
                    _ => self.problem(Problem::new(
                        at,
                        format!("`{value}` is not a share of a processor core"),
                        "write quota=67% or quota=1.5, at least 1%",
                    )),
                },
                _ => {
                    let what = format!("`{word}` is not an option of a service");
                    return Err(Problem::new(at, what, SERVICE));
                }
            }
        }
        self.members(&mut service, scanner)?;
        self.file.network.services.push(service);
        Ok(())
    }

    /// Parses names up to `}`, separated by commas or white space.
    fn members(&mut self, service: &mut Service, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        loop {
            scanner.skip_blank_lines();
            let at = scanner.position();
            if scanner.eat("}") {
                return Ok(());
            }
            if scanner.eat(",") {
                continue;
            }
            let Some(member) = scanner.name() else {
                let what = match scanner.peek() {
                    None => format!("the service `{}` is not closed", service.name),
                    Some(_) => format!("unexpected {} within a service", scanner.next_token()),
                };
                return Err(Problem::new(at, what, SERVICE));
            };
            self.network_items += 1;
            if self.network_items > ITEMS_MAX {
                let what = format!("more than {ITEMS_MAX} members of services");
                return Err(Problem::new(at, what, "split it into two networks"));
            }
            service.members.push((member.to_owned(), at));
        }
    }

    fn scale(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let service = expect_name(scanner, "service", SCALE)?.to_owned();
        scanner.skip_blank();
        let at = scanner.position();
        let word = scanner.option_word();
        let bounds = range(word).ok().filter(|(min, max)| {
            (1..=u64::from(INSTANCES_MAX)).contains(min)
                && (*min..=u64::from(INSTANCES_MAX)).contains(max)
        });
        let Some((min, max)) = bounds else {
            let what = format!("`{word}` is not a number of instances");
            let remedy = format!("write two numbers from 1 to {INSTANCES_MAX}, such as 1..4");
            return Err(Problem::new(at, what, remedy));
        };
        let mut scale = Scale {
            service,
            min: min as u32,
            max: max as u32,
            target: 0.7,
            low: 0.2,
            tolerance: 0.1,
            hold_ms: 5_000,
            cool_down_ms: 20_000,
            spread: Spread::Name,
            depth: 0,
            position,
        };
        let names = ["target", "low", "tolerance", "hold", "cool", "by", "depth"];
        self.options(scanner, &names, SCALE, |key, value| {
            match key {
                "target" => scale.target = share(value, 1.0)?,
                "low" => scale.low = share(value, 1.0)?,
                "tolerance" => scale.tolerance = share(value, 1.0)?,
                "hold" => scale.hold_ms = duration_ms(value)?,
                "cool" => scale.cool_down_ms = duration_ms(value)?,
                "by" => scale.spread = one_of(value, &Spread::NAMES)?,
                _ => scale.depth = integer(value, 0, 32)? as u32,
            }
            Ok(())
        });
        self.file.network.scales.push(scale);
        Ok(())
    }

    fn link(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let from = expect_name(scanner, "service or face", LINK)?.to_owned();
        scanner.skip_blank();
        let at = scanner.position();
        if !scanner.eat("->") {
            let what = format!("{} where `->` is expected", scanner.next_token());
            return Err(Problem::new(at, what, LINK));
        }
        scanner.skip_blank();
        let to = expect_name(scanner, "service or face", LINK)?.to_owned();
        let mut kind = None;
        scanner.skip_blank();
        let mut lookahead = scanner.clone();
        if lookahead.name() == Some("over") {
            *scanner = lookahead;
            scanner.skip_blank();
            kind = Some(expect_one_of(scanner, "transport", &LinkKind::NAMES)?);
        }
        let mut cost = 1;
        self.options(scanner, &["cost"], LINK, |_, value| {
            cost = integer(value, 1, 1 << 32)?;
            Ok(())
        });
        self.file.network.links.push(LinkRule { from, to, kind, cost, position });
        Ok(())
    }

    fn insert(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let order = expect_one_of(scanner, "order", &InsertionOrder::NAMES)?;
        match self.file.network.order {
            None => self.file.network.order = Some((order, position)),
            Some((_, first)) => self.problem(Problem::new(
                position,
                format!("the order is given twice: first in line {}", first.line),
                "remove one of the two lines",
            )),
        }
        Ok(())
    }

    fn trust(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        scanner.eat("{");
        loop {
            scanner.skip_blank_lines();
            let position = scanner.position();
            if scanner.eat("}") {
                return Ok(());
            }
            let word = scanner.name();
            scanner.skip_blank();
            match word {
                Some("anchor") if scanner.peek() == Some('"') => {
                    let file = scanner.text()?;
                    self.file.network.anchors.push(Anchor { file, position });
                }
                Some("allow") if scanner.peek() == Some('"') => {
                    let names = scanner.text()?;
                    scanner.skip_blank_lines();
                    let by = scanner.name();
                    scanner.skip_blank_lines();
                    if by != Some("by") || scanner.peek() != Some('"') {
                        let what =
                            format!("{} where `by \"KEY\"` is expected", scanner.next_token());
                        return Err(Problem::new(scanner.position(), what, TRUST));
                    }
                    let keys = scanner.text()?;
                    self.file.network.permissions.push(Permission { names, keys, position });
                }
                None if scanner.peek().is_none() => {
                    return Err(Problem::new(position, "`trust {` is not closed", TRUST));
                }
                word => {
                    let token =
                        word.map_or_else(|| scanner.next_token(), |word| format!("`{word}`"));
                    let what = format!("unexpected {token} within trust");
                    return Err(Problem::new(position, what, TRUST));
                }
            }
            self.network_items += 1;
            if self.network_items > ITEMS_MAX {
                let what = format!("more than {ITEMS_MAX} rules of trust");
                return Err(Problem::new(position, what, "use patterns that cover several names"));
            }
        }
    }

    fn defend(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let attack = expect_one_of(scanner, "attack", &Attack::NAMES)?;
        let mut defence = Defence {
            attack,
            watch: Vec::new(),
            period_ms: 2_000,
            threshold: if attack == Attack::Poisoning { 0.2 } else { 0.5 },
            requests_min: 100,
            quiet_periods: 10,
            sample: 1.0,
            rate: 100,
            is_isolated: false,
            position,
        };
        let names: &[&str] = match attack {
            Attack::Poisoning => {
                &["watch", "fall", "requests", "period", "quiet", "sample", "isolate"]
            }
            Attack::Flooding => &["watch", "unsatisfied", "requests", "period", "quiet", "rate"],
        };
        let at = scanner.position();
        self.options(scanner, names, DEFEND, |key, value| {
            match key {
                "watch" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    defence.watch.extend(names.map(|name| (name.to_owned(), at)));
                }
                "fall" | "unsatisfied" => defence.threshold = share(value, 1.0)?,
                "requests" => defence.requests_min = integer(value, 1, 1 << 40)?,
                "period" => defence.period_ms = duration_ms(value)?.max(100),
                "quiet" => defence.quiet_periods = integer(value, 1, 100_000)? as u32,
                "sample" => defence.sample = share(value, 1.0)?,
                "rate" => defence.rate = integer(value, 1, 1 << 32)?,
                _ => defence.is_isolated = flag(value)?,
            }
            Ok(())
        });
        self.file.network.defences.push(defence);
        Ok(())
    }

    fn route(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let prefix = scanner.word().to_owned();
        scanner.skip_blank();
        let at = scanner.position();
        if scanner.name() != Some("at") {
            let what = "a route without a place";
            return Err(Problem::new(at, what, ROUTE));
        }
        scanner.skip_blank();
        let element = expect_name(scanner, "element", ROUTE)?.to_owned();
        if !scanner.eat(".") {
            let what = format!("`{element}` without a face");
            return Err(Problem::new(scanner.position(), what, ROUTE));
        }
        let face = expect_name(scanner, "face", ROUTE)?.to_owned();
        let mut cost = 0;
        self.options(scanner, &["cost"], ROUTE, |_, value| {
            cost = integer(value, 0, 1 << 32)?;
            Ok(())
        });
        let route = StaticRoute { prefix, element, face, cost, position };
        self.file.network.routes.push(route);
        Ok(())
    }

    /// Parses `KEY=VALUE` and `KEY` words up to the end of the line. A mistake is reported, and the
    /// next word is read.
    fn options(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &[&str],
        remedy: &str,
        mut set: impl FnMut(&str, &str) -> Result<(), String>,
    ) {
        let mut given: Vec<&str> = Vec::new();
        loop {
            scanner.skip_blank();
            let position = scanner.position();
            if matches!(scanner.peek(), None | Some('\n')) {
                return;
            }
            let word = scanner.option_word();
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let problem = if !names.contains(&key) {
                let what = format!("`{key}` is not an option here");
                let near = suggest(key, names.iter().copied());
                let remedy =
                    near.map_or(remedy.to_owned(), |near| format!("did you mean `{near}`?"));
                Some(Problem::new(position, what, remedy))
            } else if given.contains(&key) {
                let what = format!("option `{key}` is given twice");
                Some(Problem::new(position, what, "leave one of the two out"))
            } else {
                given.push(key);
                let wrong = |remedy| {
                    Problem::new(position, format!("`{value}` is not a value of `{key}`"), remedy)
                };
                set(key, value).err().map(wrong)
            };
            if let Some(problem) = problem {
                self.problem(problem);
                self.unresolved.statement = true;
            }
        }
    }
}

fn expect_name<'a>(
    scanner: &mut Scanner<'a>,
    what: &str,
    remedy: &str,
) -> Result<&'a str, Problem> {
    let position = scanner.position();
    scanner.name().ok_or_else(|| {
        let what = format!("{} where the name of a {what} is expected", scanner.next_token());
        Problem::new(position, what, remedy)
    })
}

fn expect_one_of<T: Copy>(
    scanner: &mut Scanner<'_>,
    what: &str,
    known: &[(&'static str, T)],
) -> Result<T, Problem> {
    let position = scanner.position();
    let word = scanner.option_word();
    one_of(word, known)
        .map_err(|remedy| Problem::new(position, format!("no {what} is called `{word}`"), remedy))
}

fn one_of<T: Copy>(word: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("write one of: {}", names.join(", "))
    })
}

fn flag(value: &str) -> Result<bool, String> {
    if value.is_empty() { Ok(true) } else { Err("write the word alone".to_owned()) }
}

fn integer(value: &str, min: u64, max: u64) -> Result<u64, String> {
    let parsed = value.replace('_', "").parse().ok();
    parsed
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("write a whole number from {min} to {max}"))
}

fn decimal(value: &str, min: f64, max: f64) -> Result<f64, String> {
    let parsed: Option<f64> = value.parse().ok();
    parsed
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("write a number from {min} to {max}"))
}

/// Parses a share: `70%` or `0.7`.
fn share(value: &str, max: f64) -> Result<f64, String> {
    let (number, scale) = value.strip_suffix('%').map_or((value, 1.0), |value| (value, 100.0));
    let parsed: Option<f64> = number.parse().ok();
    let parsed = parsed.map(|number| number / scale);
    parsed
        .filter(|share| (0.0..=max).contains(share))
        .ok_or_else(|| format!("write a share such as 70% or 0.7, at most {:.0}%", max * 100.0))
}

/// Parses a duration: `5s`, `500ms` or `2m`.
fn duration_ms(value: &str) -> Result<u64, String> {
    let units = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
        Some(number * factor)
    });
    parsed
        .filter(|ms| (0.0..=86_400_000.0).contains(ms))
        .map(|ms| ms as u64)
        .ok_or_else(|| "write a duration such as 5s, 500ms or 2m, at most 24h".to_owned())
}

/// Parses `A..B`.
fn range(value: &str) -> Result<(u64, u64), String> {
    let (first, last) = value.split_once("..").ok_or("write two numbers, such as 1..4")?;
    Ok((integer(first, 0, u64::MAX)?, integer(last, 0, u64::MAX)?))
}

const PORTS: &str = "write the first and the last port, such as 16400..16499";
const HOST: &str = "write host NAME = process or host NAME = docker, followed by agent, address=IP, cores=N, mib=N, image=NAME or ports=A..B";
const SERVICE: &str =
    "write service NAME on HOST { ELEMENT, ELEMENT }, with quota=67% before the bracket if needed";
const SCALE: &str = "write scale SERVICE 1..4, followed by target=70%, low=20%, tolerance=10%, hold=5s, cool=20s, by=name or depth=N";
const LINK: &str = "write link A -> B over unix, shm, tcp or udp, followed by cost=N";
const TRUST: &str = "write trust { anchor \"FILE\" allow \"/NAMES/<..>\" by \"/KEYS/KEY/<_>\" }, each on a line of its own";
const DEFEND: &str = "write defend poisoning or defend flooding, followed by watch=A,B, requests=N, period=2s, quiet=10, and fall=20%, sample=100%, isolate or unsatisfied=50%, rate=N";
const ROUTE: &str = "write route /PREFIX at ELEMENT.FACE, followed by cost=N";
