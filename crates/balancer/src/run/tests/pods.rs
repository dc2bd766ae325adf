//! Members that are pods: the event loop with a number of replicas that the test keeps.

use super::*;
use crate::member_count::CountError;

#[derive(Default)]
struct Replicas {
    number: u32,
    error: Option<&'static str>,
    gets: usize,
}

#[derive(Clone, Default)]
struct TestCount(Arc<Mutex<Replicas>>);

impl MemberCount for TestCount {
    fn get(&mut self) -> Result<u32, CountError> {
        let mut replicas = self.0.lock().unwrap();
        replicas.gets += 1;
        Ok(replicas.number)
    }

    fn set(&mut self, members: u32) -> Result<(), CountError> {
        let mut replicas = self.0.lock().unwrap();
        if let Some(error) = replicas.error {
            return Err(CountError::Failed(error.to_owned()));
        }
        replicas.number = members;
        Ok(())
    }
}

const ELASTIC: &str = "[elastic]\nenabled = true\nengine = \"kubernetes\"\nstateful_set = \"p\"\n\
    members_max = 2\ncapacity_per_s = 1000\nhold_s = 0\ncool_down_s = 0\n[drain]\nidle_ms = 100\n";

impl Bench {
    fn start_with_pods(count: &TestCount) -> Option<Bench> {
        let address = own_address()?;
        let directory = tempfile::tempdir().unwrap();
        let members = vec![Member::start(directory.path(), "m1", address)];
        let data_path = RecordingDataPath::default();
        let mut bench = Bench { directory, address, members, data_path, balancer: None };
        let count: Option<Box<dyn MemberCount>> = Some(Box::new(count.clone()));
        bench.start_with(ELASTIC, Starters { count, launcher: None });
        Some(bench)
    }

    /// Runs until the condition holds, under this load.
    fn loaded(&mut self, per_s: u64, what: &str, mut holds: impl FnMut(&mut Bench) -> bool) {
        let (start, before) = (Clock::now(), self.data_path.state().interests);
        self.until(what, |bench| {
            let interests = before + start.elapsed().as_millis() as u64 * per_s / 1000;
            bench.data_path.state().interests = interests;
            holds(bench)
        });
    }

    fn says(&mut self) -> String {
        self.balancer().status().elastic.map(|elastic| elastic.says).unwrap_or_default()
    }

    fn warns(&mut self, text: &str) -> bool {
        self.balancer().status().warnings.iter().any(|warning| warning.contains(text))
    }
}

#[test]
fn replicas_follow_load_and_pods_join_and_leave_by_themselves() {
    let count = TestCount::default();
    // More than the bound: one member is fixed, so one pod is left.
    count.0.lock().unwrap().number = 7;
    let Some(mut bench) = Bench::start_with_pods(&count) else { return };
    let number = || count.0.lock().unwrap().number;
    bench.until("the bound holds", |_| number() == 1);
    bench.until("the pod is waited for", |bench| bench.says().contains("pods of p are joining"));
    let pod = Member::start(bench.directory.path(), "p-0", bench.address);
    let wanted = MemberWanted {
        name: "p-0".to_owned(),
        addresses: vec![bench.address],
        port: pod.port,
        weight: None,
        control: None,
        external_routes: true,
    };
    bench.balancer().add(wanted).unwrap();
    bench.members.push(pod);
    bench.all_active();
    bench.loaded(3000, "no more are added", |bench| bench.says().contains("members_max"));
    assert_eq!(number(), 1);
    count.0.lock().unwrap().error = Some("no right to patch");
    bench.loaded(0, "a failed change is a warning", |bench| {
        bench.warns("replicas of p can't be changed: no right to patch")
    });
    count.0.lock().unwrap().error = None;
    bench.loaded(0, "the pod is removed", |_| number() == 0);
    // As its agent does at SIGTERM.
    let _ = bench.balancer().remove("p-0").unwrap();
    bench.until("the pod has left", |bench| bench.state("p-0").is_none());
    assert!(!bench.warns("replicas of p"), "the change has succeeded");
    bench.loaded(3000, "a pod is added", |_| number() == 1);
    assert!(count.0.lock().unwrap().gets < 20, "reads are few");
}

#[test]
fn pods_without_a_program_that_counts_them_are_refused() {
    // Rights are checked later, so that this test needs none.
    let text = format!(
        "[cluster]\naddresses = [\"192.0.2.1\"]\ninterfaces = [\"lo\"]\n{}",
        ELASTIC.replace("members_max = 2\n", "")
    );
    let config = Config::parse("test", &text).unwrap();
    let error = Balancer::start(config, None).map(drop).unwrap_err().to_string();
    assert!(error.contains("--features kubernetes"), "{error}");
}
