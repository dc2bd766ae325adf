//! What the paper says: `data/csr.toml`, and the curves that follow from it, in units of what one member can do.

use serde::Deserialize;
use std::collections::BTreeMap;

const CSR: &str = include_str!("../data/csr.toml");

/// A number of the paper's, or several in a row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// In the unit that its name ends in.
    pub values: Vec<f64>,
    /// Where it stands in the paper.
    pub from: String,
}

/// What a figure shows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureText {
    /// In the words of this house: members are the paper's internal routers.
    pub caption: String,
    /// What the paper found, to stand after "The paper found that".
    pub found: String,
}

/// The paper on the cluster behind a balancer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csr {
    /// The paper's.
    pub title: String,
    /// Who wrote it.
    pub authors: String,
    /// By name.
    pub number: BTreeMap<String, Number>,
    /// By number.
    pub figure: BTreeMap<String, FigureText>,
}

impl Csr {
    /// What the file of this crate says.
    pub fn read() -> Csr {
        toml::from_str(CSR).expect("a test reads it")
    }

    /// A number by its name.
    pub fn one(&self, name: &str) -> f64 {
        self.all(name)[0]
    }

    /// Several by their name.
    pub fn all(&self, name: &str) -> &[f64] {
        &self.number[name].values
    }

    /// A figure's text.
    pub fn text(&self, figure: u8) -> &FigureText {
        &self.figure[&figure.to_string()]
    }

    /// Figure 6: 300·min(members, downloads), and what four members got in the end. No members is the plain router.
    pub fn throughput(&self, members: usize, downloads: usize) -> f64 {
        match members.max(1).min(downloads) {
            4 => self.one("four_members_mbit") / self.one("member_mbit"),
            fewer => fewer as f64,
        }
    }

    /// What the limited members can do.
    pub fn limited(&self) -> f64 {
        self.one("limited_mbit") / self.one("member_mbit")
    }

    /// Percent of names that each member gets in figure 10.
    pub fn weights(&self) -> [u32; 3] {
        let [light, heavy] = ["light_weight", "heavy_weight"].map(|name| self.one(name) as u32);
        [light, light, heavy]
    }

    /// Figure 9: names spread by these weights over two limited members and a whole one. The member that is full first holds up the rest, as
    /// every download asks all of them.
    pub fn of_unlike(&self, weights: [u32; 3], downloads: usize) -> f64 {
        let all: u32 = weights.iter().sum();
        let full = weights
            .iter()
            .zip([self.limited(), self.limited(), 1.0])
            .map(|(weight, able)| able * f64::from(all) / f64::from(*weight))
            .fold(f64::INFINITY, f64::min);
        full.min(downloads as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let csr = Csr::read();
        for figure in crate::setup::FIGURES {
            assert!(!csr.text(figure).found.is_empty());
        }
        let section = |number: &Number| number.from.starts_with("section") && !number.values.is_empty();
        assert!(csr.number.values().all(section), "each number says where it stands");
    }

    #[test]
    fn curves_are_the_papers() {
        let csr = Csr::read();
        assert_eq!([1, 2, 3, 5].map(|downloads| csr.throughput(3, downloads)), [1.0, 2.0, 3.0, 3.0]);
        assert_eq!((csr.throughput(0, 5), csr.throughput(4, 2)), (1.0, 2.0));
        assert!((csr.throughput(4, 5) * 300.0 - 1150.0).abs() < 1e-9);
        // Three members as good as the limited one, and all of them full.
        let close = |value: f64, mbit: f64| assert!((value * 300.0 - mbit).abs() < 1e-9, "{value}");
        close(csr.of_unlike([1, 1, 1], 5), 510.0);
        close(csr.of_unlike(csr.weights(), 5), 600.0);
        close(csr.of_unlike(csr.weights(), 1), 300.0);
    }
}
