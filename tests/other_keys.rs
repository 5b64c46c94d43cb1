//! `--hash` and `--as`: the keys of other software, beside what the server's own SQL and the catalogue's vectors say.

use std::collections::BTreeSet;

use crate::assets::catalogue::{PROGRAMS, SCHEMES, Vector};
use crate::support::{Pglock, Server, until};

/// Two names whose second halves agree within any namespace, by SHA-256.
const SHARE_A_HALF: [&str; 2] = ["job-45873", "job-52859"];
/// Two words with one CRC-32.
const SHARE_A_CRC: [&str; 2] = ["plumless", "buckeroo"];

/// What schemes are in SQL, for an array of names.
const IN_SQL: [(&str, &str); 6] = [
    ("hashtext", "hashtext(name)::bigint"),
    ("hashtextextended", "hashtextextended(name, 0)"),
    ("md5", "('x' || left(md5(name), 16))::bit(64)::bigint"),
    (
        "sha224",
        "('x' || left(encode(sha224(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::bigint",
    ),
    (
        "sha256",
        "('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::bigint",
    ),
    (
        "sha256-le",
        "(SELECT bit_or(get_byte(sha256(convert_to(name, 'UTF8')), i)::bigint << (8 * i))
          FROM generate_series(0, 7) AS i)",
    ),
];

#[test]
fn every_vector_of_a_scheme_is_what_key_prints() {
    for scheme in SCHEMES {
        assert_vectors(&["--hash", scheme.word], scheme.vectors);
    }
}

#[test]
fn every_vector_of_a_program_is_what_key_prints() {
    for program in PROGRAMS {
        if let Some(word) = program.word {
            assert_vectors(&["--as", word], program.vectors);
        }
    }
}

#[test]
fn hashes_are_what_the_servers_own_sql_computes() {
    let names = crate::keys::random_names();
    let mut client = Server::shared().client();
    for (scheme, expression) in IN_SQL {
        let sql = format!(
            "SELECT {expression} FROM unnest($1::text[]) WITH ORDINALITY AS names (name, place)
             ORDER BY place"
        );
        let rows = client.query(&sql, &[&names]).unwrap();
        let keys = rows
            .iter()
            .map(|row| row.get::<_, i64>(0).to_string() + "\n");
        key(&["--hash", scheme, "--"])
            .args(&names)
            .run()
            .assert_code(0)
            .assert_stdout(&keys.collect::<String>());
    }
}

#[test]
fn a_hash_of_32_bits_has_two_halves_in_a_namespace_and_others_are_refused() {
    let expected = [
        ("hashtext", "-1010065801,1562953857"),
        ("crc32", "-1758750840,1202238042"),
        ("heimdall", "440978475,-748136117"),
    ];
    for (scheme, pair) in expected {
        key(&["--hash", scheme, "-N", "pg_backup", "my_lock"])
            .run()
            .assert_code(0)
            .assert_stdout(&format!("{pair}\n"))
            .assert_stderr("");
    }
    let mut client = Server::shared().client();
    let sql = "SELECT hashtext('pg_backup') || ',' || hashtext('my_lock')";
    let pair: String = client.query_one(sql, &[]).unwrap().get(0);
    assert_eq!(pair, expected[0].1);
    for scheme in ["md5", "sha1", "fnv1-64", "sqlx", "with-advisory-lock"] {
        let refused = |pglock: Pglock| {
            pglock
                .run()
                .assert_code(125)
                .assert_one_message()
                .assert_stderr_has(&format!("--hash {scheme} has no keys in a namespace"));
        };
        refused(key(&["--hash", scheme, "-N", "ns", "my_lock"]));
        refused(key(&["--hash", scheme, "my_lock"]).env("PGLOCK_NAMESPACE", "ns"));
    }
}

#[test]
fn a_program_knows_no_namespace_and_wants_a_name_that_fits() {
    key(&["--as", "goose", "x"])
        .env("PGLOCK_NAMESPACE", "ns")
        .run()
        .assert_stdout("4097083626\n");
    for (arguments, says) in [
        (
            &["--as", "goose", "-N", "ns", "x"][..],
            "cannot be used with",
        ),
        (
            &["--as", "goose", "--hash", "md5", "x"],
            "cannot be used with",
        ),
        (&["--hash", "md5", "--raw", "42"], "cannot be used with"),
        (&["--hash", "crc23", "x"], "--hash does not know 'crc23'"),
        (
            &["--as", "rails", "x"],
            "perhaps rails-migrations, rails-event-store",
        ),
        (
            &["--as", "golang-migrate", "a,b,c,d"],
            "it has too many parts; NAME is DATABASE[,SCHEMA[,TABLE]]",
        ),
        (&["--as", "golang-migrate", "a,,c"], "SCHEMA is empty"),
        (
            &["--as", "airflow", "x"],
            "NAME is one of migrations, scheduler-critical-section",
        ),
        (&["--as", "pg-repack", "my_table"], "NAME is TABLE-OID"),
        (&["--as", "flyway", ""], "the lock's name is empty"),
    ] {
        for verb in ["run", "try"] {
            Pglock::without_server()
                .env("PGHOST", "/nonexistent")
                .arg(verb)
                .args(arguments)
                .args(["--", "true"])
                .run()
                .assert_code(125)
                .assert_stdout("")
                .assert_one_message()
                .assert_stderr_has(says);
        }
        key(arguments)
            .run()
            .assert_code(125)
            .assert_stderr_has(says);
    }
}

#[test]
fn the_lock_for_another_database_is_refused_before_any_connection() {
    let run = |options: &[&str]| {
        let pglock = Pglock::without_server().env("PGHOST", "/nonexistent");
        let pglock = pglock.args(["run", "--as", "rails-migrations"]);
        pglock.args(options).args(["app", "true"]).run()
    };
    run(&["-d", "other"])
        .assert_code(125)
        .assert_one_message()
        .assert_stderr_has("the lock for database app is taken there, and this connects to other");
    run(&["-d", "app"]).assert_code(121);
}

#[test]
fn all_shows_what_every_scheme_gives() {
    let finished = key(&["--all", "my_lock"]).run();
    finished.assert_code(0).assert_stderr("");
    let lines: Vec<Vec<&str>> = finished
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["SCHEME", "KEY", "FORM"]);
    assert_eq!(lines.len(), SCHEMES.len() + 1);
    for (line, scheme) in lines[1..].iter().zip(SCHEMES) {
        let printed = key(&["--hash", scheme.word, "my_lock"]).run().stdout;
        let form = if printed.contains(',') {
            "int4,int4"
        } else {
            "bigint"
        };
        assert_eq!(*line, [scheme.word, printed.trim(), form]);
    }
    let in_namespace = key(&["--all", "-N", "ns", "my_lock"]).run();
    in_namespace.assert_code(0).assert_stdout_has("hashtext");
    assert!(!in_namespace.stdout.contains("md5"), "{in_namespace:?}");
    key(&["--all", "a", "b"])
        .run()
        .assert_code(125)
        .assert_one_message();
}

#[test]
fn keys_are_whole_on_one_line_however_narrow_it_is() {
    let wide = key(&["--all", "x"]).run();
    let exported = key(&["--all", "x"]).env("COLUMNS", "40").run();
    exported.assert_code(0).assert_stdout(&wide.stdout);

    let mut shell = key(&["--all", "x"]).through(&["sh", "-c", "stty cols 40; exec \"$@\"", "sh"]);
    shell.command().env("COLUMNS", "200");
    let narrow = shell.on_terminal().wait();
    narrow.assert_code(0);
    let lines: Vec<&str> = narrow.stdout.lines().collect();
    assert_eq!(lines.len(), wide.stdout.lines().count(), "{narrow:?}");
    for (line, wide) in lines.iter().zip(wide.stdout.lines()) {
        assert!(line.chars().count() <= 40, "{line}");
        let key = wide.split_whitespace().nth(1).unwrap();
        assert!(line.contains(key), "{line} lacks {key}");
    }
}

#[test]
fn help_names_every_scheme() {
    let help = key(&["--help"]).run();
    help.assert_code(0);
    let words: Vec<&str> = help
        .stdout
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '.'))
        .collect();
    for scheme in SCHEMES {
        assert!(words.contains(&scheme.word), "{}", scheme.word);
    }
}

#[test]
fn check_reports_the_names_of_a_file_that_share_a_key() {
    let [one, other] = SHARE_A_CRC;
    let text = format!("{one}\nx\n\n{one}\n{other}\n");
    key(&["--hash", "crc32", "--check", "-"])
        .stdin(text.clone())
        .run()
        .assert_code(1)
        .assert_stdout("plumless and buckeroo share key 1306201125\n")
        .assert_stderr("");
    key(&["--check", "-"])
        .stdin(text)
        .run()
        .assert_code(0)
        .assert_silent();

    let [one, other] = SHARE_A_HALF;
    let scratch = crate::support::Watchdog::start();
    let file = scratch.directory().join("names");
    std::fs::write(&file, format!("{one}\n{other}")).unwrap();
    let check = |options: &[&str]| key(options).arg("--check").arg(&file).run();
    check(&[]).assert_code(0).assert_silent();
    check(&["-N", "ns"])
        .assert_code(1)
        .assert_stdout_has("ns/job-45873 and ns/job-52859 share key ")
        .assert_stderr("");
    check(&["--as", "airflow"])
        .assert_code(125)
        .assert_one_message()
        .assert_stderr_has(", line 1: --as airflow: ");
    for missing in ["/nonexistent/file", "/"] {
        key(&["--check", missing])
            .run()
            .assert_code(125)
            .assert_one_message();
    }
    key(&["--check", "-", "x"]).run().assert_code(125);
}

#[test]
fn check_does_not_report_what_is_one_lock_by_intent() {
    let check = |program: &str, names: &str| {
        let check = key(&["--as", program, "--check", "-"]);
        check.stdin(names.to_owned()).run()
    };
    check("golang-migrate", "app\napp,public\n")
        .assert_code(0)
        .assert_silent();
    check("goose", "deploy\nrelease\n")
        .assert_code(0)
        .assert_silent();
    check("awx", &SHARE_A_CRC.join("\n"))
        .assert_code(1)
        .assert_stdout_has("plumless and buckeroo share key ");
    key(&["--raw", "--check", "-"])
        .stdin("42\n042\n")
        .run()
        .assert_code(0)
        .assert_silent();
}

#[test]
fn a_lock_of_another_database_is_not_quietly_looked_for_in_this_one() {
    let server = Server::shared();
    let database = server.database();
    let words = |verb: &str, options: &[&str]| {
        let pglock = Pglock::new(server).env("PGDATABASE", &database);
        let pglock = pglock.arg(verb).args(options);
        pglock.args(["--as", "rails-migrations", "elsewhere"]).run()
    };
    for (verb, options) in [("list", &[][..]), ("list", &["-q"]), ("release", &[])] {
        words(verb, options)
            .assert_code(125)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("the lock for database elsewhere is taken there");
    }
    words("list", &["-a", "--json"])
        .assert_code(0)
        .assert_stdout("[]\n");
}

#[test]
fn a_glob_finds_no_names_by_another_rule() {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    let _ours = pglock().hold("ab");
    let _theirs = pglock().args(["--hash", "crc32"]).hold("ac");
    let found = |options: &[&str]| {
        let listed = pglock().args(["list", "--json"]).args(options).run();
        let views: Vec<serde_json::Value> = serde_json::from_str(&listed.stdout).unwrap();
        let names = views
            .iter()
            .map(|view| view["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(found(&["a*"]), ["ab"]);
    assert_eq!(found(&["--hash", "crc32", "a*"]), ["ac"]);
}

#[test]
fn the_key_that_is_printed_is_the_one_that_is_held_and_its_name_is_listed() {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    let long = "n".repeat(300);
    for (options, name) in [
        (["--hash", "crc32"], "plumless"),
        (["--hash", "advisory-lock"], "é #|:%"),
        (["--hash", "hashtext"], long.as_str()),
        (["--as", "golang-migrate"], &format!("{database},public")),
        (["--as", "prisma-migrate"], "deploy"),
    ] {
        let holder = pglock().args(options).hold(name);
        let printed = key(&options).arg(name).run().stdout;
        let listed = pglock()
            .args(["list", "--json"])
            .args(options)
            .arg(name)
            .run();
        listed.assert_code(0).assert_stderr("");
        let views: Vec<serde_json::Value> = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(views.len(), 1, "{listed:?}");
        assert_eq!(views[0]["key"], printed.trim());
        assert_eq!(views[0]["name"], name);
        assert!(views[0]["program"].is_null(), "{listed:?}");
        pglock()
            .args(["try"])
            .args(options)
            .args([name, "true"])
            .run()
            .assert_code(75)
            .assert_stderr_has(&format!("pglock: {name} is held by "));
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn what_is_held_too_has_its_key_by_the_same_scheme_and_is_freed_by_it() {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    let options = ["--hash", "crc32"];
    let _holder = pglock()
        .args(options)
        .args(["--also", "my_table"])
        .hold("my_lock");
    let listed = pglock().args(["list", "--json"]).run();
    let views: Vec<serde_json::Value> = serde_json::from_str(&listed.stdout).unwrap();
    let held: BTreeSet<_> = views
        .iter()
        .map(|view| {
            (
                view["name"].as_str().unwrap(),
                view["key"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        held,
        [("my_lock", "1202238042"), ("my_table", "2599370114")].into()
    );
    pglock()
        .arg("try")
        .args(options)
        .args(["my_table", "true"])
        .run()
        .assert_code(75)
        .assert_stderr_has("; to free it: pglock release --hash crc32 my_table");
}

#[test]
fn the_lock_of_a_program_excludes_the_program() {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    let mut prisma = server.client_as(&database, "postgres");
    prisma
        .batch_execute("SELECT pg_advisory_lock(72707369)")
        .unwrap();
    let turned_away = pglock()
        .args(["try", "--as", "prisma-migrate", "deploy", "true"])
        .run();
    turned_away
        .assert_code(75)
        .assert_one_message()
        .assert_stderr_has("pglock: deploy is held by postgres ")
        .assert_stderr_has(", Prisma Migrate");
    prisma
        .batch_execute("SELECT pg_advisory_unlock(72707369)")
        .unwrap();

    let holder = pglock().args(["--as", "rails-migrations"]).hold(&database);
    let rails = "SELECT pg_try_advisory_lock(2053462845 * $1::bigint)";
    let crc = key(&["--hash", "crc32", &database]).run().stdout;
    let crc: i64 = crc.trim().parse().unwrap();
    let mut got = || prisma.query_one(rails, &[&crc]).unwrap().get::<_, bool>(0);
    assert!(!got());
    holder.let_go().assert_code(0);
    until("the lock is free", got);
}

#[test]
fn names_that_share_a_key_are_told_apart() {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    for (options, [ours, theirs], shown) in [
        (
            &["--hash", "crc32"][..],
            SHARE_A_CRC,
            ["plumless", "buckeroo"],
        ),
        (
            &["-N", "ns"],
            SHARE_A_HALF,
            ["ns/job-45873", "ns/job-52859"],
        ),
    ] {
        let holder = pglock().args(options).hold(theirs);
        pglock()
            .arg("try")
            .args(options)
            .args([ours, "true"])
            .run()
            .assert_code(75)
            .assert_one_message()
            .assert_stderr_has(&format!(
                "pglock: {} shares its key with {}, held by ",
                shown[0], shown[1]
            ));
        let waiter = pglock()
            .arg("run")
            .args(options)
            .args([ours, "true"])
            .spawn();
        until("the collision is listed", || {
            let listed = pglock().arg("list").run();
            listed.assert_code(0);
            let says = format!("pglock: {} and {} share key ", shown[1], shown[0]);
            listed.stderr.contains(&says) || {
                listed.assert_stderr("");
                false
            }
        });
        holder.let_go().assert_code(0).assert_stderr("");
        waiter.wait().assert_code(0);
    }
}

#[track_caller]
fn assert_vectors(options: &[&str], vectors: &[Vector]) {
    let (names, keys): (Vec<&str>, Vec<&str>) = vectors.iter().copied().unzip();
    key(options)
        .arg("--")
        .args(names)
        .run()
        .assert_code(0)
        .assert_stderr("")
        .assert_stdout(&(keys.join("\n") + "\n"));
}

/// `pglock key` where there is no server.
fn key(arguments: &[&str]) -> Pglock {
    let pglock = Pglock::without_server().env("PGHOST", "/nonexistent");
    pglock.arg("key").args(arguments)
}
