//! `examples/kubernetes`: checked against Kubernetes' schema, and run as two pods would be.
//!
//! There is no cluster. A pod is a machine of its own whose host name is the pod's and whose first process is what the container's `command`
//! and `args` say, with its `env`, files, user, and a root file system that cannot be written; of the address only the port is added.

use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::examples::database::{Database, PASSWORD};
use crate::examples::tools::{at, check, text, yaml};
use crate::support::{Machine, until};

const FILE: &str = "kubernetes/cronjob.yaml";
const POD: &str = "/spec/jobTemplate/spec/template/spec";
const LOCK: &str = "nightly-report";

/// Says that it was told, and ends.
const JOB: &str = "#!/bin/sh\ntrap 'echo told; exit 6' TERM\necho began >/tmp/said\necho began\nsleep 300 &\nwait\n";

#[test]
fn the_cron_job_is_what_kubernetes_knows() {
    check("kubernetes-validate", &["--strict"], FILE);
    let cron_job = yaml(FILE);
    let pod = at(&cron_job, POD);
    // What two numbers of the file owe to others.
    let job = at(&cron_job, "/spec/jobTemplate/spec");
    let seconds = |value: &Value, place| at(value, place).as_u64().unwrap();
    assert!(seconds(job, "/activeDeadlineSeconds") > 2 * 3600 + 5 * 60);
    assert!(seconds(&cron_job, "/spec/startingDeadlineSeconds") < 5 * 60);
    assert!(seconds(pod, "/terminationGracePeriodSeconds") > 10);
}

#[test]
fn of_two_pods_one_does_the_work_until_it_is_told_to_stop() {
    let (Some(first), Some(second)) = (Pod::new("report-1-x5b2q"), Pod::new("report-2-7kd9w"))
    else {
        return;
    };
    first.start();
    first.machine.await_said("began\n");
    second.start();
    assert_eq!(second.machine.await_end(), 0);
    second
        .machine
        .await_said("pglock: nightly-report is held by ");
    let said = second.machine.console();
    assert!(said.contains(" on report-1-x5b2q pid 1 "), "{said}");
    assert!(!said.contains("began"), "{said}");

    assert!(database().is_held(LOCK));
    kill(first.machine.first_process(), Signal::SIGTERM).unwrap();
    assert_eq!(first.machine.await_end(), 6, "{}", first.machine.console());
    let said = first.machine.console();
    assert_eq!(said.matches("told\n").count(), 1, "{said}");
    assert!(!database().is_held(LOCK));
}

#[test]
fn a_pod_that_is_killed_leaves_no_lock() {
    let Some(mut pod) = Pod::new("report-3-qq8zr") else {
        return;
    };
    // The lock of the other test is another one.
    pod.arguments.retain(|word| word != LOCK);
    let place = pod.arguments.iter().position(|word| word == "--").unwrap();
    pod.arguments.insert(place, "killed-report".to_owned());
    pod.start();
    pod.machine.await_said("began\n");
    assert!(database().is_held("killed-report"));
    kill(pod.machine.first_process(), Signal::SIGKILL).unwrap();
    pod.machine.await_end();
    until("a free lock", || !database().is_held("killed-report"));
}

/// The server of these tests.
fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(Database::start)
}

/// A machine that is like the pod of the file.
struct Pod {
    machine: Machine,
    arguments: Vec<String>,
    environment: Vec<String>,
    user: Value,
}

impl Pod {
    fn new(name: &str) -> Option<Self> {
        let machine = Machine::new(name)?;
        let database = database();
        database.introduce(&machine);
        machine.install("/opt/report/nightly.sh", JOB, 0o755);

        let cron_job = yaml(FILE);
        let pod = at(&cron_job, POD);
        let container = at(pod, "/containers/0");
        for mount in at(container, "/volumeMounts").as_array().unwrap() {
            let directory = text(mount, "/mountPath");
            match text(mount, "/name") {
                "postgres-ca" => {
                    let file = format!("{directory}/ca.crt");
                    machine.install(&file, &database.root_certificate(), 0o644);
                }
                "scratch" => assert_eq!(directory, "/tmp", "which every machine has for itself"),
                other => panic!("a volume that no test knows: {other}"),
            }
        }
        let mut environment = vec![format!("PGPORT={}", database.server.port())];
        for variable in at(container, "/env").as_array().unwrap() {
            let value = if let Some(value) = variable.get("value") {
                value.as_str().unwrap()
            } else {
                assert_eq!(text(variable, "/valueFrom/secretKeyRef/key"), "password");
                PASSWORD
            };
            environment.push(format!("{}={value}", text(variable, "/name")));
        }
        let words = |place| at(container, place).as_array().unwrap().iter();
        let words = words("/command").chain(words("/args"));
        let arguments = words.map(|word| word.as_str().expect("a string").to_owned());
        assert_eq!(
            at(container, "/securityContext/readOnlyRootFilesystem"),
            true
        );
        Some(Self {
            machine,
            arguments: arguments.collect(),
            environment,
            user: at(pod, "/securityContext").clone(),
        })
    }

    fn start(&self) {
        let [user, group] = ["/runAsUser", "/runAsGroup"].map(|place| at(&self.user, place));
        let rights = "--clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all";
        let quoted = |words: &[String]| shlex::try_join(words.iter().map(String::as_str)).unwrap();
        self.machine.start(&format!(
            "mount -o remount,bind,ro / && exec setpriv --reuid={user} --regid={group} {rights} env -i {} {}",
            quoted(&self.environment),
            quoted(&self.arguments)
        ));
    }
}
