//! The paper's data: `data/csr.toml` and the curves computed from it, in units of the capacity of
//! one member.

use serde::Deserialize;
use std::collections::BTreeMap;

const CSR: &str = include_str!("../data/csr.toml");

/// A number of the paper, or a list of numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// The values, in the unit at the end of the number's name.
    pub values: Vec<f64>,
    /// The position in the paper.
    pub from: String,
}

/// The text of a figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureText {
    /// The caption in the terms of this project, where members are the paper's internal routers.
    pub caption: String,
    /// The paper's finding, as a continuation of "The paper found that".
    pub found: String,
}

/// The paper on the cluster behind a balancer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csr {
    /// The title.
    pub title: String,
    /// The authors.
    pub authors: String,
    /// Numbers by name.
    pub number: BTreeMap<String, Number>,
    /// Figure texts by figure number.
    pub figure: BTreeMap<String, FigureText>,
}

impl Csr {
    /// Reads the file that is built into this crate.
    pub fn read() -> Csr {
        toml::from_str(CSR).expect("a test parses the built-in file")
    }

    /// Returns the first value of a number by its name.
    pub fn value(&self, name: &str) -> f64 {
        self.values(name)[0]
    }

    /// Returns all values of a number by its name.
    pub fn values(&self, name: &str) -> &[f64] {
        &self.number[name].values
    }

    /// Returns the text of a figure.
    pub fn text(&self, figure: u8) -> &FigureText {
        &self.figure[&figure.to_string()]
    }

    /// Returns the throughput of figure 6: 300·min(members, downloads), and the measured maximum
    /// for four members. Zero members stand for the single router.
    pub fn throughput(&self, members: usize, downloads: usize) -> f64 {
        match members.max(1).min(downloads) {
            4 => self.value("four_members_mbit") / self.value("member_mbit"),
            fewer => fewer as f64,
        }
    }

    /// Returns the capacity of the limited members.
    pub fn limited(&self) -> f64 {
        self.value("limited_mbit") / self.value("member_mbit")
    }

    /// Returns the percentage of names of each member in figure 10.
    pub fn weights(&self) -> [u32; 3] {
        let [light, heavy] = ["light_weight", "heavy_weight"].map(|name| self.value(name) as u32);
        [light, light, heavy]
    }

    /// Returns the throughput of figure 9 for names distributed by weights over two limited members
    /// and an unlimited one. The member that is saturated first holds back the others, because
    /// every download uses all of them.
    pub fn heterogeneous(&self, weights: [u32; 3], downloads: usize) -> f64 {
        let all: u32 = weights.iter().sum();
        let saturated = weights
            .iter()
            .zip([self.limited(), self.limited(), 1.0])
            .map(|(weight, capacity)| capacity * f64::from(all) / f64::from(*weight))
            .fold(f64::INFINITY, f64::min);
        saturated.min(downloads as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_file_is_complete() {
        let csr = Csr::read();
        for figure in crate::setup::FIGURES {
            assert!(!csr.text(figure).found.is_empty());
        }
        let section =
            |number: &Number| number.from.starts_with("section") && !number.values.is_empty();
        assert!(csr.number.values().all(section), "each number has its position in the paper");
    }

    #[test]
    fn curves_match_the_paper() {
        let csr = Csr::read();
        assert_eq!(
            [1, 2, 3, 5].map(|downloads| csr.throughput(3, downloads)),
            [1.0, 2.0, 3.0, 3.0]
        );
        assert_eq!((csr.throughput(0, 5), csr.throughput(4, 2)), (1.0, 2.0));
        assert!((csr.throughput(4, 5) * 300.0 - 1150.0).abs() < 1e-9);
        // Three members with the capacity of the limited one; then all members saturated.
        let close = |value: f64, mbit: f64| assert!((value * 300.0 - mbit).abs() < 1e-9, "{value}");
        close(csr.heterogeneous([1, 1, 1], 5), 510.0);
        close(csr.heterogeneous(csr.weights(), 5), 600.0);
        close(csr.heterogeneous(csr.weights(), 1), 300.0);
    }
}
