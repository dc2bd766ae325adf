//! `nw graph`: graphs of elements: check, draw, test, explain, run.

mod run;

use crate::output;
use crate::output::stdout;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use nw_graph::{GraphFile, Problem, draw, help, trial};
use nw_service::LinkKind;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum GraphVerb {
    /// Say all that is wrong with a graph, each with its line and what helps
    Check {
        /// Graph files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print one JSON object per file: file, problems
        #[arg(long)]
        json: bool,
    },
    /// Draw a graph: on the terminal, as a picture, as Mermaid text
    ///
    /// What can't work is drawn as well, as far as it can be read.
    Draw {
        /// Graph file
        file: PathBuf,
        /// Write a picture (SVG) to this file; - is standard output
        #[arg(long, value_name = "FILE", conflicts_with = "mermaid")]
        svg: Option<PathBuf>,
        /// Print text from which Mermaid draws, in Markdown for example
        #[arg(long)]
        mermaid: bool,
    },
    /// Run a graph as a router, until Ctrl-C
    ///
    /// Opens its faces and takes packets through its elements. SIGHUP reads the file again and changes what runs, while packets flow; a file with
    /// mistakes changes nothing.
    Run(run::Run),
    /// Cut a graph into services: a graph file for each, joined by links
    ///
    /// Every element belongs to one service; a face goes with the element that its packets enter, unless a service names it.
    /// Run each file with `nw service run --graph FILE`, in any order.
    Cut {
        /// Graph file
        file: PathBuf,
        /// Folder for the files, which is made; the sockets of the links are there too
        #[arg(long, value_name = "FOLDER")]
        into: PathBuf,
        /// A service, and its elements and faces: NAME=ELEMENT,FACE,…
        #[arg(long = "service", value_name = "NAME=MEMBERS", required = true)]
        services: Vec<String>,
        /// What the links are: unix sockets, or memory that both ends share
        #[arg(long, value_name = "KIND", default_value = "unix")]
        links: Links,
    },
    /// Run the tests that stand in graph files
    ///
    /// No socket is opened; time is virtual. Ends with code 1 when one fails.
    Test {
        /// Graph files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Only tests with this in their name
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Print one JSON object per test: file, line, test, passed, error
        #[arg(long)]
        json: bool,
    },
    /// List elements, or explain one: ports, parameters, contract
    Help(Help),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Links {
    Unix,
    Shm,
}

#[derive(Debug, Args)]
pub struct Help {
    /// The element
    pub element: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn graph(verb: &GraphVerb) -> Result<ExitCode> {
    match verb {
        GraphVerb::Check { files, json } => check(files, *json),
        GraphVerb::Draw { file, svg, mermaid } => picture(file, svg.as_deref(), *mermaid),
        GraphVerb::Cut { file, into, services, links } => cut(file, into, services, *links),
        GraphVerb::Run(args) => run::run(args),
        GraphVerb::Test { files, only, json } => test(files, only.as_deref(), *json),
        GraphVerb::Help(args) => explain(args),
    }
}

fn text_of(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

/// A graph that can run.
pub(crate) fn load(path: &Path) -> Result<GraphFile> {
    Ok(GraphFile::read(&path.display().to_string(), &text_of(path)?)?)
}

#[derive(Serialize)]
struct ProblemLine<'a> {
    line: u32,
    column: u32,
    what: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
struct FileLine<'a> {
    file: String,
    good: bool,
    problems: Vec<ProblemLine<'a>>,
}

fn check(files: &[PathBuf], json: bool) -> Result<ExitCode> {
    let mut wrong = Vec::new();
    for path in files {
        let file = path.display().to_string();
        let read = GraphFile::read(&file, &text_of(path)?);
        if json {
            let problems: &[Problem] = read.as_ref().err().map_or(&[], |problems| &problems.problems);
            let problems = problems
                .iter()
                .map(|problem| ProblemLine {
                    line: problem.place.line,
                    column: problem.place.column,
                    what: &problem.what,
                    remedy: &problem.remedy,
                })
                .collect();
            output::json_line(&FileLine { file: file.clone(), good: read.is_ok(), problems })?;
        }
        match read {
            Ok(_) if json => {}
            Ok(found) => outln!("{file} is a graph that can run: {}", summary(&found))?,
            Err(problems) => wrong.push(problems),
        }
    }
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if json {
        return Ok(ExitCode::FAILURE);
    }
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    Err(anyhow!(all.join("\n")))
}

fn summary(file: &GraphFile) -> String {
    let of = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    [
        of(file.graph.faces.len(), "face", "faces"),
        of(file.graph.nodes.len(), "element", "elements"),
        of(file.graph.connections.len(), "connection", "connections"),
        of(file.tests.len(), "test", "tests"),
    ]
    .join(", ")
}

fn cut(path: &Path, into: &Path, services: &[String], links: Links) -> Result<ExitCode> {
    let file = load(path)?;
    let parse = |text: &String| {
        let (name, members) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .with_context(|| format!("{text:?} is no service: NAME=ELEMENT,FACE,… is expected"))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(is_plain) {
            bail!("{name:?} is no name of a service: letters, digits and _ are");
        }
        Ok((name.to_owned(), members.split(',').map(str::trim).map(str::to_owned).collect()))
    };
    let services: Vec<(String, Vec<String>)> = services.iter().map(parse).collect::<Result<_>>()?;
    let folder = std::path::absolute(into).with_context(|| format!("can't find {}", into.display()))?;
    let kind = match links {
        Links::Unix => LinkKind::Unix,
        Links::Shm => LinkKind::SharedMemory,
    };
    let pieces = nw_service::cut(&file.graph, &services, &folder, kind)?;
    fs::create_dir_all(into).with_context(|| format!("can't make {}", into.display()))?;
    for piece in pieces {
        let to = folder.join(format!("{}.graph", piece.name));
        let text = format!("# A part of {}.\n{}", path.display(), nw_graph::language::write(&piece.graph));
        fs::write(&to, text).with_context(|| format!("can't write {}", to.display()))?;
        outln!("nw service run --graph {}", to.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn picture(path: &Path, svg: Option<&Path>, mermaid: bool) -> Result<ExitCode> {
    let (file, problems) = GraphFile::examine(&text_of(path)?);
    let drawn = match (svg, mermaid) {
        (Some(_), _) => draw::svg(&file.graph)?,
        (None, true) => draw::mermaid(&file.graph),
        (None, false) => draw::terminal(&file.graph)?,
    };
    match svg {
        Some(to) if to != Path::new("-") => {
            fs::write(to, drawn).with_context(|| format!("can't write {}", to.display()))?;
        }
        _ => stdout().write_all(drawn.as_bytes())?,
    }
    if !problems.is_empty() {
        let count = problems.len();
        let path = path.display();
        bail!("drawn as far as it can be read: `nw graph check {path}` says what is wrong ({count})");
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct TestLine<'a> {
    file: &'a str,
    line: u32,
    test: &'a str,
    passed: bool,
    error: Option<String>,
}

fn test(files: &[PathBuf], only: Option<&str>, json: bool) -> Result<ExitCode> {
    let (mut passed, mut failed) = (0, 0);
    for path in files {
        let file = load(path)?;
        let name = path.display().to_string();
        let wanted = |test: &&nw_graph::Test| only.is_none_or(|part| test.name.contains(part));
        for test in file.tests.iter().filter(wanted) {
            let result = trial::run_test(&file.graph, test);
            *(if result.is_ok() { &mut passed } else { &mut failed }) += 1;
            let (line, error) = (test.place.line, result.err().map(|failure| failure.to_string()));
            if json {
                let is_passed = error.is_none();
                output::json_line(&TestLine {
                    file: &name,
                    line,
                    test: &test.name,
                    passed: is_passed,
                    error,
                })?;
                continue;
            }
            match error {
                None => outln!("passed  {name}:{line}: {}", test.name)?,
                Some(error) => {
                    outln!(
                        "FAILED  {name}:{line}: {}\n        {}",
                        test.name,
                        error.replace('\n', "\n        ")
                    )?;
                }
            }
        }
    }
    if !json {
        outln!("{passed} passed, {failed} failed")?;
    }
    match (passed + failed, only) {
        (0, Some(part)) => bail!("no test has {part:?} in its name"),
        (0, None) => bail!("there is no test to run: write test \"what must happen\" {{ … }} into the file"),
        _ if failed > 0 => Ok(ExitCode::FAILURE),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn explain(args: &Help) -> Result<ExitCode> {
    let entry = args.element.as_deref().map(|name| help::find(name).map_err(|text| anyhow!(text)));
    match (entry.transpose()?, args.json) {
        (None, true) => help::elements().try_for_each(|element| output::json_line(&element))?,
        (None, false) => stdout().write_all(help::list().as_bytes())?,
        (Some(entry), true) => output::json_line(&help::element(entry))?,
        (Some(entry), false) => stdout().write_all(help::of(entry).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
