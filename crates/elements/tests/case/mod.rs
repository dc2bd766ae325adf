//! Element cases as text: see `tests/cases/README.md`.

mod expect;
mod packet;
mod run;

pub use run::run;

/// Words of one line, in order.
pub struct Words<'a> {
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Self {
        Words { words: line.split_whitespace() }
    }

    pub fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    pub fn need(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.need(what)?;
        number(word, what)
    }

    pub fn end(&mut self) -> Result<(), String> {
        self.next().map_or(Ok(()), |word| Err(format!("{word:?} is one word too many")))
    }
}

pub fn number<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{what} is a number, not {word:?}"))
}

pub fn hex(digits: &str) -> Result<Vec<u8>, String> {
    let octet = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets = (0..digits.len()).step_by(2).map(octet).collect::<Option<_>>();
    octets.ok_or_else(|| format!("{digits:?} is not an even number of hexadecimal digits"))
}
