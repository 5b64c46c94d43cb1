//! Where and how to connect: pglock beside psql, which both read options, variables and files by libpq's rules.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::OnceLock;

use nix::unistd::{Uid, User, geteuid};

use crate::support::{Case, Pglock, Place, Server, Shutdown, Watchdog, compare};

#[test]
fn variables() {
    compare(
        place(),
        &[
            Case::new("all in variables, by socket")
                .env("PGHOST", "<dir-a>")
                .env("PGPORT", "<port-a>")
                .env("PGUSER", "keeper")
                .env("PGDATABASE", "one")
                .reaches("<port-a> one keeper socket"),
            by_variables("PGHOST by TCP").reaches(AT_A),
            by_variables("PGHOSTADDR wins over PGHOST")
                .env("PGHOST", "nowhere.invalid")
                .env("PGHOSTADDR", "<host-a>")
                .reaches(AT_A),
            by_variables("options win over variables")
                .args([
                    "-h", "<dir-b>", "-p", "<port-b>", "-U", "guarded", "-d", "two",
                ])
                .env("PGPASSWORD", "s3cret:g")
                .reaches("<port-b> two guarded socket"),
            by_variables("long options")
                .args([
                    "--host=<host-b>",
                    "--port=<port-b>",
                    "--username=keeper",
                    "--dbname=two",
                ])
                .reaches("<port-b> two keeper tcp"),
            by_variables("the last of two options wins")
                .args([
                    "-h", "<host-a>", "-h", "<host-b>", "-p", "1", "-p", "<port-b>",
                ])
                .args(["-U", "nobody", "-U", "keeper", "-d", "one", "-d", "two"])
                .reaches("<port-b> two keeper tcp"),
            by_variables("the last of two connection strings wins whole")
                .at("host=<host-b> port=<port-b> user=nobody")
                .at("dbname=either")
                .reaches("<port-a> either keeper tcp"),
            by_variables("an empty option is none")
                .args(["-h", "", "-p", "", "-U", "", "-d", ""])
                .reaches(AT_A),
            by_variables("the database of the user's name")
                .env("PGDATABASE", "")
                .reaches("<port-a> keeper keeper tcp"),
            by_variables("the user of the operating system")
                .env("PGUSER", "")
                .reaches("<port-a> one <me> tcp"),
            by_variables("PGPASSWORD")
                .env("PGUSER", "guarded")
                .env("PGPASSWORD", "s3cret:g")
                .reaches("<port-a> one guarded tcp"),
            by_variables("PGPASSWORD for SCRAM")
                .env("PGUSER", "sealed")
                .env("PGPASSWORD", "s3cret s")
                .reaches("<port-a> one sealed tcp"),
            by_variables("a wrong PGPASSWORD")
                .env("PGUSER", "guarded")
                .env("PGPASSWORD", "s3cret")
                .refused("password authentication failed"),
            by_variables("no password")
                .env("PGUSER", "guarded")
                .refused("password"),
            by_variables("a URI in PGDATABASE is a name")
                .env("PGDATABASE", "host=<host-b>")
                .refused("host=<host-b>"),
            by_variables("PGOPTIONS")
                .env("PGOPTIONS", "-c search_path=public")
                .reaches(AT_A),
            by_variables("PGOPTIONS that the server refuses")
                .env("PGOPTIONS", "-c nosuch=1")
                .refused("nosuch"),
            by_variables("PGAPPNAME")
                .env("PGAPPNAME", "x")
                .reaches(AT_A),
            by_variables("PGCLIENTENCODING")
                .env("PGCLIENTENCODING", "LATIN1")
                .reaches(AT_A),
        ],
    );
}

#[test]
fn variables_that_are_checked() {
    compare(
        place(),
        &[
            by_variables("PGCONNECT_TIMEOUT is no number")
                .env("PGCONNECT_TIMEOUT", "abc")
                .malformed("connect_timeout"),
            by_variables("PGPORT is no number")
                .env("PGPORT", "abc")
                .malformed("port"),
            by_variables("PGPORT is 0")
                .env("PGPORT", "0")
                .malformed("port"),
            by_variables("PGPORT is too large")
                .env("PGPORT", "65536")
                .malformed("port"),
            by_variables("PGPORT with blanks")
                .env("PGPORT", " <port-a> ")
                .reaches(AT_A),
            by_variables("PGSSLMODE=disable")
                .env("PGSSLMODE", "disable")
                .reaches(AT_A),
            by_variables("PGSSLMODE=require of a server without TLS")
                .env("PGSSLMODE", "require")
                .refused("TLS"),
            by_variables("PGSSLMODE=require on a socket")
                .env("PGSSLMODE", "require")
                .env("PGHOST", "<dir-a>")
                .reaches("<port-a> one keeper socket"),
            by_variables("PGREQUIRESSL=1 of a server without TLS")
                .env("PGREQUIRESSL", "1")
                .refused("TLS"),
            by_variables("PGREQUIRESSL below PGSSLMODE")
                .env("PGREQUIRESSL", "1")
                .env("PGSSLMODE", "prefer")
                .reaches(AT_A),
            by_variables("PGSSLMODE is bad, on a socket too")
                .env("PGSSLMODE", "bogus")
                .env("PGHOST", "<dir-a>")
                .malformed("sslmode"),
            by_variables("PGGSSENCMODE=disable")
                .env("PGGSSENCMODE", "disable")
                .reaches(AT_A),
            by_variables("PGGSSENCMODE=require")
                .env("PGGSSENCMODE", "require")
                .malformed("gssencmode"),
            by_variables("PGTARGETSESSIONATTRS=primary")
                .env("PGTARGETSESSIONATTRS", "primary")
                .reaches(AT_A),
            by_variables("PGREQUIREPEER of another")
                .env("PGREQUIREPEER", "nobody-here")
                .env("PGHOST", "<dir-a>")
                .refused("requirepeer"),
            by_variables("PGCHANNELBINDING=disable")
                .env("PGCHANNELBINDING", "disable")
                .reaches(AT_A),
            by_variables("PGSSLMINPROTOCOLVERSION is bad")
                .env("PGSSLMINPROTOCOLVERSION", "TLSv9")
                .malformed("ssl_min_protocol_version"),
            by_variables("protocol versions that exclude each other")
                .env("PGSSLMINPROTOCOLVERSION", "TLSv1.3")
                .env("PGSSLMAXPROTOCOLVERSION", "TLSv1.2")
                .malformed("protocol"),
            by_variables("lists that do not match")
                .env("PGHOST", "<host-a>,<host-b>")
                .env("PGPORT", "1,2,3")
                .malformed("3 port numbers to 2 hosts"),
        ],
    );
}

#[test]
fn uris() {
    compare(
        place(),
        &[
            Case::new("all parts").at("postgresql://guarded:s3cret%3Ag@<host-a>:<port-a>/one").reaches("<port-a> one guarded tcp"),
            Case::new("the short scheme").at("postgres://keeper@<host-a>:<port-a>/one").reaches(AT_A),
            Case::new("parameters only").at("postgresql://?host=<host-a>&port=<port-a>&user=keeper&dbname=one").reaches(AT_A),
            Case::new("a socket's directory as the host").at("postgresql://keeper@<enc-a>:<port-a>/one").reaches("<port-a> one keeper socket"),
            Case::new("a socket's directory as a parameter").at("postgresql:///one?host=<dir-a>&port=<port-a>&user=keeper").reaches("<port-a> one keeper socket"),
            Case::new("a user without a host").at("postgresql://keeper@/one?host=<enc-a>&port=<port-a>").reaches("<port-a> one keeper socket"),
            Case::new("parameters win over parts").at("postgresql://nobody@nowhere.invalid:<port-a>/two?host=<host-a>&user=keeper&dbname=one").reaches(AT_A),
            Case::new("the last of two parameters wins").at("postgresql://<host-a>:<port-a>/one?user=nobody&user=keeper").reaches(AT_A),
            Case::new("a percent-encoded name").at("postgresql://keeper@<host-a>:<port-a>/%6Fn%65").reaches(AT_A),
            Case::new("names that need encoding").at("postgresql://odd%20%40:s3cret%2F%3F@<host-a>:<port-a>/a%2Fb%20%25").reaches("<port-a> a/b % odd @ tcp"),
            Case::new("a question mark in the password").at("postgresql://asking:s3cret?q@<host-a>:<port-a>/one").reaches("<port-a> one asking tcp"),
            Case::new("a colon in the password").at("postgresql://guarded:s3cret:g@<host-a>:<port-a>/one").reaches("<port-a> one guarded tcp"),
            Case::new("an at sign in the password ends it").at("postgresql://signed:s3cret@x@<host-a>:<port-a>/one").malformed("%40"),
            Case::new("an encoded parameter").at("postgresql://<host-a>:<port-a>/one?us%65r=keep%65r").reaches(AT_A),
            Case::new("server options").at("postgresql://keeper@<host-a>:<port-a>/one?options=-c%20search_path%3Dpublic").reaches(AT_A),
            Case::new("server options that the server refuses").at("postgresql://keeper@<host-a>:<port-a>/one?options=-c%20nosuch%3D1").refused("nosuch"),
            Case::new("several hosts, the first refuses").at("postgresql://keeper@127.0.0.1:1,<host-b>:<port-b>/either").reaches("<port-b> either keeper tcp"),
            Case::new("several hosts, the first answers").at("postgresql://keeper@<host-a>:<port-a>,<host-b>:<port-b>/either").reaches("<port-a> either keeper tcp"),
            Case::new("a missing database is final").at("postgresql://keeper@<host-a>:<port-a>,<host-b>:<port-b>/two").refused("two"),
            Case::new("no port of several hosts is the default's").at("postgresql://keeper@<host-a>,<host-a>/one").env("PGPORT", "<port-a>").refused("5432"),
            Case::new("one port of two hosts").at("postgresql://keeper@<host-a>,<host-a>:<port-a>/one").reaches(AT_A),
            Case::new("nothing between the slashes").at("postgresql://").env("PGHOST", "<host-a>").env("PGPORT", "<port-a>").env("PGUSER", "keeper").env("PGDATABASE", "one").reaches(AT_A),
            Case::new("empty parts").at("postgresql://:@:/?").env("PGHOST", "<host-a>").env("PGPORT", "<port-a>").env("PGUSER", "keeper").env("PGDATABASE", "one").reaches(AT_A),
            Case::new("an ampersand at the end").at("postgresql://<host-a>:<port-a>/one?user=keeper&").reaches(AT_A),
            Case::new("two ampersands").at("postgresql://<host-a>:<port-a>/one?user=keeper&&sslmode=disable").malformed("URI"),
            Case::new("a parameter without a value").at("postgresql://keeper@<host-a>:<port-a>/one?sslmode").malformed("URI"),
            Case::new("a second equals sign").at("postgresql://keeper@<host-a>:<port-a>/one?options=-csearch_path=public").malformed("URI"),
            Case::new("an unknown parameter").at("postgresql://keeper@<host-a>:<port-a>/one?bogus=1").malformed("bogus"),
            Case::new("a bad escape").at("postgresql://keeper@<host-a>:<port-a>/on%6").malformed("percent"),
            Case::new("a forbidden escape").at("postgresql://keeper@<host-a>:<port-a>/one%00").malformed("%00"),
            Case::new("a bad port").at("postgresql://keeper@<host-a>:abc/one").malformed("port"),
            Case::new("a bracket that is not closed").at("postgresql://keeper@[::1/one").malformed("IPv6"),
            Case::new("text behind the bracket").at("postgresql://keeper@[::1]x:<port-a>/one").malformed("]"),
            Case::new("nothing in the brackets").at("postgresql://keeper@[]:<port-a>/one?host=<host-a>").malformed("IPv6"),
            Case::new("ssl=true").at("postgresql://keeper@<host-a>:<port-a>/one?ssl=true").refused("TLS"),
            Case::new("ssl=false").at("postgresql://keeper@<host-a>:<port-a>/one?ssl=false").malformed("ssl"),
            Case::new("an option beside the URI").at("postgresql://<host-a>:<port-a>/one").args(["-U", "keeper"]).reaches(AT_A),
            Case::new("the URI wins over options").at("postgresql://keeper@<host-a>:<port-a>/one").args(["-h", "<host-b>", "-p", "<port-b>", "-U", "nobody"]).reaches(AT_A),
        ],
    );
}

#[test]
fn an_ipv6_address() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    compare(
        place(),
        &[
            Case::new("in a URI")
                .at("postgresql://keeper@[::1]:<port-a>/one")
                .reaches(AT_A),
            Case::new("in keywords")
                .at("host=::1 port=<port-a> user=keeper dbname=one")
                .reaches(AT_A),
            Case::new("in an option")
                .args(["-h", "::1", "-p", "<port-a>", "-U", "keeper", "-d", "one"])
                .reaches(AT_A),
        ],
    );
}

#[test]
fn keywords() {
    compare(
        place(),
        &[
            Case::new("plain").at("host=<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("blanks around everything").at("  host = <host-a>\tport= <port-a>\n user ='keeper'dbname=one ").reaches(AT_A),
            Case::new("quotes and escapes").at(r"host=<host-a> port=<port-a> user='odd @' password='s3cret/?' dbname=a/b\ %").reaches("<port-a> a/b % odd @ tcp"),
            Case::new("escapes in quotes").at(r"host=<host-a> port=<port-a> user=quoted password='s3cret\'\\' dbname='one'").reaches("<port-a> one quoted tcp"),
            Case::new("the last of two wins").at("host=<host-b> host=<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("an empty value is the default's, not the variable's").at("host=<host-a> port=<port-a> user=keeper dbname=''").env("PGDATABASE", "one").reaches("<port-a> keeper keeper tcp"),
            Case::new("an empty host is the default socket").at("host='' port=<port-a> user=keeper dbname=one").env("PGHOST", "<host-a>").refused("<port-a>"),
            Case::new("keywords as the last option say").args(["-h", "<host-a>", "-p", "<port-a>", "-U", "keeper", "-d", "dbname=one"]).reaches(AT_A),
            Case::new("an unknown keyword").at("host=<host-a> bogus=1").malformed("bogus"),
            Case::new("an obsolete keyword").at("host=<host-a> port=<port-a> user=keeper dbname=one tty=x").malformed("tty"),
            Case::new("no equals sign").at("host=<host-a> keeper").malformed("connection string"),
            Case::new("nothing before the equals sign").at("=s3cret").malformed(""),
            Case::new("a quote that is not closed").at("host=<host-a> password='s3cret").malformed("quoted"),
            Case::new("port 0").at("host=<host-a> port=0").malformed("port"),
            Case::new("port 65536").at("host=<host-a> port=65536").malformed("port"),
            Case::new("more ports than hosts").at("host=<host-a> port=<port-a>,<port-b>").malformed("2 port numbers to 1 hosts"),
            Case::new("one port for all").at("host=127.0.0.1,<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("a directory without a socket, then a server").at("host=<home>,<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("an empty host in the list").at("host=,<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("more addresses than hosts").at("host=<host-a> hostaddr=<host-a>,<host-b>").malformed("hostaddr"),
            Case::new("an address in place of the host").at("hostaddr=<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("an address besides the host").at("host=nowhere.invalid hostaddr=<host-a> port=<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("an address for the second host only").at("host=127.0.0.1,nowhere.invalid hostaddr=,<host-a> port=1,<port-a> user=keeper dbname=one").reaches(AT_A),
            Case::new("an address that is a name").at("hostaddr=localhost port=1 user=keeper dbname=one").malformed("hostaddr"),
            Case::new("a name that nobody has").at("host=nowhere.invalid port=<port-a>").refused("nowhere.invalid"),
            at_a("connect_timeout=abc").malformed("connect_timeout"),
            at_a("connect_timeout=' 5 '").reaches(AT_A),
            at_a("connect_timeout=0").reaches(AT_A),
            at_a("connect_timeout=-1").reaches(AT_A),
            at_a("sslmode=bogus").malformed("sslmode"),
            at_a("sslmode=''").malformed("sslmode"),
            at_a("requiressl=1").refused("TLS"),
            at_a("keepalives=0").reaches(AT_A),
            at_a("keepalives=1 keepalives_idle=5 keepalives_interval=1 keepalives_count=2 tcp_user_timeout=1000").reaches(AT_A),
            at_a("keepalives=abc").malformed("keepalives"),
            at_a("keepalives_idle=abc").malformed("keepalives_idle"),
            at_a("tcp_user_timeout=abc").malformed("tcp_user_timeout"),
            at_a("client_encoding=UTF8").reaches(AT_A),
            at_a("application_name=x fallback_application_name=y").reaches(AT_A),
            at_a("sslcompression=1 krbsrvname=x gsslib=gssapi sslsni=0").reaches(AT_A),
            at_a("replication=off").reaches(AT_A),
            at_a("options='-c default_transaction_read_only=off'").reaches(AT_A),
        ],
    );
}

#[test]
fn the_wanted_kind_of_server_and_of_authentication() {
    compare(
        place(),
        &[
            at_a("target_session_attrs=any").reaches(AT_A),
            at_a("target_session_attrs=read-write").reaches(AT_A),
            at_a("target_session_attrs=primary").reaches(AT_A),
            at_a("target_session_attrs=prefer-standby").reaches(AT_A),
            at_a("target_session_attrs=standby").refused("standby"),
            at_a("target_session_attrs=read-only").refused("read-only"),
            at_a("target_session_attrs=bogus").malformed("target_session_attrs"),
            at_a("target_session_attrs=read-write options='-c default_transaction_read_only=on'").refused("read-only"),
            Case::new("the second is read-write").at("host=<host-a>,<host-b> port=<port-a>,<port-b> user=reader dbname=either target_session_attrs=read-write").reaches("<port-b> either reader tcp"),
            Case::new("requirepeer is right").at("host=<dir-a> port=<port-a> user=keeper dbname=one requirepeer=<owner>").reaches("<port-a> one keeper socket"),
            Case::new("requirepeer is wrong").at("host=<dir-a> port=<port-a> user=keeper dbname=one requirepeer=nobody-here").refused("requirepeer"),
            at_a("requirepeer=nobody-here").reaches(AT_A),
            at_a("gssencmode=prefer").reaches(AT_A),
            at_a("gssencmode=bogus").malformed("gssencmode"),
            at_a("gssencmode=require").malformed("gssencmode"),
            Case::new("gssencmode=require on a socket").at("host=<dir-a> port=<port-a> user=keeper dbname=one gssencmode=require").malformed("gssencmode"),
            at_a("channel_binding=prefer").reaches(AT_A),
            at_a("channel_binding=require").refused("channel binding"),
            at_a("channel_binding=bogus").malformed("channel_binding"),
            Case::new("channel_binding=require for SCRAM without TLS").at("host=<host-a> port=<port-a> user=sealed password='s3cret s' dbname=one channel_binding=require").refused("channel binding"),
            Case::new("channel_binding=disable for SCRAM").at("host=<host-a> port=<port-a> user=sealed password='s3cret s' dbname=one channel_binding=disable").reaches("<port-a> one sealed tcp"),
        ],
    );
}

const SERVICES: &str = "# a comment

[other]
host=nowhere.invalid
nonsense
[a]
  host=<host-a>
port=<port-a>
# between
user=keeper
dbname=one
dbname=two
[sealed]
host=<host-a>
port=<port-a>
user=guarded
dbname=one
password=s3cret:g
[nested]
service=a
[unknown]
bogus=1
[blank]
host = <host-a>
[partial]
port=<port-a>
host=<host-a>
sslmode=disable
[commented] # a
host=<host-a>
port=<port-a>
user=keeper
dbname=one
";

#[test]
fn services() {
    let with_file = |name| Case::new(name).file(".pg_service.conf", SERVICES);
    compare(
        place(),
        &[
            with_file("PGSERVICE").env("PGSERVICE", "a").reaches(AT_A),
            with_file("in keywords").at("service=a").reaches(AT_A),
            with_file("in a URI")
                .at("postgresql://?service=a")
                .reaches(AT_A),
            with_file("keywords win over PGSERVICE")
                .at("service=a")
                .env("PGSERVICE", "other")
                .reaches(AT_A),
            with_file("a password")
                .at("service=sealed")
                .reaches("<port-a> one guarded tcp"),
            with_file("the service wins over variables")
                .at("service=a")
                .env("PGHOST", "<host-b>")
                .env("PGPORT", "<port-b>")
                .env("PGUSER", "nobody")
                .env("PGDATABASE", "two")
                .reaches(AT_A),
            with_file("options win over the service")
                .args(["-d", "either"])
                .env("PGSERVICE", "a")
                .reaches("<port-a> either keeper tcp"),
            with_file("the connection string wins over the service")
                .at("service=a host=<host-b> port=<port-b> dbname=two")
                .reaches("<port-b> two keeper tcp"),
            with_file("variables fill what the service leaves open")
                .at("service=partial")
                .env("PGUSER", "keeper")
                .env("PGDATABASE", "one")
                .reaches(AT_A),
            with_file("text behind the header")
                .at("service=commented")
                .reaches(AT_A),
            with_file("unknown")
                .at("service=nosuch")
                .malformed("nosuch"),
            with_file("empty")
                .at("service=''")
                .env("PGHOST", "<host-a>")
                .env("PGPORT", "<port-a>")
                .env("PGUSER", "keeper")
                .env("PGDATABASE", "one")
                .malformed("service"),
            with_file("a line that is none")
                .at("service=other")
                .malformed("line 5"),
            with_file("nested").at("service=nested").malformed("nested"),
            with_file("an unknown parameter")
                .at("service=unknown")
                .malformed("line 22"),
            with_file("blanks around the equals sign")
                .at("service=blank")
                .malformed("line 24"),
            Case::new("no file")
                .at("service=a")
                .malformed("\"a\" not found"),
            Case::new("PGSERVICEFILE")
                .at("service=a")
                .file("elsewhere", SERVICES)
                .env("PGSERVICEFILE", "<home>/elsewhere")
                .reaches(AT_A),
            with_file("PGSERVICEFILE that is not there")
                .at("service=a")
                .env("PGSERVICEFILE", "<home>/missing")
                .malformed("missing"),
            Case::new("PGSERVICEFILE that is not there, and PGSYSCONFDIR")
                .at("service=a")
                .file("etc/pg_service.conf", SERVICES)
                .env("PGSERVICEFILE", "<home>/missing")
                .env("PGSYSCONFDIR", "<home>/etc")
                .malformed("missing"),
            Case::new("PGSYSCONFDIR")
                .at("service=a")
                .file("etc/pg_service.conf", SERVICES)
                .env("PGSYSCONFDIR", "<home>/etc")
                .reaches(AT_A),
            Case::new("PGSYSCONFDIR behind the user's own")
                .at("service=a")
                .file(".pg_service.conf", "[b]\nhost=nowhere.invalid\n")
                .file("etc/pg_service.conf", SERVICES)
                .env("PGSYSCONFDIR", "<home>/etc")
                .reaches(AT_A),
            Case::new("the user's own wins")
                .at("service=a")
                .file(".pg_service.conf", SERVICES)
                .file("etc/pg_service.conf", "[a]\nhost=nowhere.invalid\n")
                .env("PGSYSCONFDIR", "<home>/etc")
                .reaches(AT_A),
        ],
    );
}

#[test]
fn password_files() {
    const REFUSED: &str = "password";
    compare(
        place(),
        &[
            guarded("wildcards").file(".pgpass", "*:*:*:*:s3cret\\:g\n").reaches(GUARDED),
            guarded("every field").file(".pgpass", "<host-a>:<port-a>:one:guarded:s3cret\\:g").reaches(GUARDED),
            guarded("the first that matches")
                .file(".pgpass", "# *:*:*:*:s3cret\n\n<host-b>:*:*:*:s3cret\n*:1:*:*:s3cret\n*:*:two:*:s3cret\n*:*:*:keeper:s3cret\n*:*:*:*:s3cret\\:g\n*:*:*:*:s3cret\n")
                .reaches(GUARDED),
            guarded("the first that matches is wrong").file(".pgpass", "*:*:*:*:s3cret\n*:*:*:*:s3cret\\:g\n").refused("authentication failed"),
            guarded("what follows the password").file(".pgpass", "*:*:*:*:s3cret\\:g:more\n").reaches(GUARDED),
            guarded("the end of a line as on Windows").file(".pgpass", "*:*:*:*:s3cret\\:g\r\n").reaches(GUARDED),
            guarded("nothing matches").file(".pgpass", "*:*:*:keeper:s3cret\\:g\n").refused(REFUSED),
            guarded("a line without a password").file(".pgpass", "*:*:*:*\n*:*:*:*:\n*:*:*:*:s3cret\\:g\n").refused(REFUSED),
            guarded("a line with too few fields").file(".pgpass", "*:*:*:*\n*:*:*:*:s3cret\\:g\n").reaches(GUARDED),
            guarded("a comment only in the first column").file(".pgpass", " #\n*:*:*:*:s3cret\\:g\n").reaches(GUARDED),
            guarded("an asterisk and more is no wildcard").file(".pgpass", "*x:*:*:*:s3cret\\:g\n").refused(REFUSED),
            Case::new("escaped fields")
                .at(r"host=<host-a> port=<port-a> user='c:d\\e' dbname=one")
                .file(".pgpass", "*:*:*:c\\:d\\\\e:s3cret\\\\c\n")
                .reaches(r"<port-a> one c:d\e tcp"),
            Case::new("a socket matches by its directory")
                .at("host=<dir-a> port=<port-a> user=guarded dbname=one")
                .file(".pgpass", "<dir-a>:*:*:*:s3cret\\:g\n")
                .reaches("<port-a> one guarded socket"),
            Case::new("a socket elsewhere is not localhost")
                .at("host=<dir-a> port=<port-a> user=guarded dbname=one")
                .file(".pgpass", "localhost:*:*:*:s3cret\\:g\n")
                .refused(REFUSED),
            Case::new("the name matches, not the address")
                .at("host=nowhere.invalid hostaddr=<host-a> port=<port-a> user=guarded dbname=one")
                .file(".pgpass", "<host-a>:*:*:*:s3cret\nnowhere.invalid:*:*:*:s3cret\\:g\n")
                .reaches(GUARDED),
            Case::new("the address where there is no name")
                .at("hostaddr=<host-a> port=<port-a> user=guarded dbname=one")
                .file(".pgpass", "<host-a>:*:*:*:s3cret\\:g\n")
                .reaches(GUARDED),
            Case::new("each host has its own")
                .at("host=127.0.0.1,<host-b> port=1,<port-b> user=guarded dbname=either")
                .file(".pgpass", "127.0.0.1:*:*:*:s3cret\n<host-b>:*:*:*:s3cret\\:g\n")
                .reaches("<port-b> either guarded tcp"),
            Case::new("of the database that is the user's")
                .at("host=<host-a> port=<port-a> user=guarded")
                .file(".pgpass", "*:*:guarded:*:s3cret\\:g\n")
                .reaches("<port-a> guarded guarded tcp"),
            guarded("others may read it").file_with_mode(".pgpass", 0o640, "*:*:*:*:s3cret\\:g\n").refused("group or world access"),
            guarded("others may read it, and nobody needs it")
                .file_with_mode(".pgpass", 0o644, "*:*:*:*:s3cret\\:g\n")
                .env("PGPASSWORD", "s3cret:g")
                .reaches(GUARDED),
            at_a("passfile=<home>/open").file_with_mode("open", 0o604, "*:*:*:*:s3cret\n").warns("group or world access").reaches(AT_A),
            at_a("passfile=<home>").warns("is not a plain file").reaches(AT_A),
            at_a("passfile=<home>/missing").reaches(AT_A),
            guarded("PGPASSFILE").file("elsewhere", "*:*:*:*:s3cret\\:g\n").env("PGPASSFILE", "<home>/elsewhere").reaches(GUARDED),
            guarded("PGPASSFILE in place of the home's").file(".pgpass", "*:*:*:*:s3cret\\:g\n").env("PGPASSFILE", "<home>/missing").refused(REFUSED),
            Case::new("passfile wins over PGPASSFILE")
                .at("host=<host-a> port=<port-a> user=guarded dbname=one passfile=<home>/elsewhere")
                .file("elsewhere", "*:*:*:*:s3cret\\:g\n")
                .env("PGPASSFILE", "<home>/missing")
                .reaches(GUARDED),
            guarded("PGPASSWORD wins over the file").file(".pgpass", "*:*:*:*:s3cret\n").env("PGPASSWORD", "s3cret:g").reaches(GUARDED),
            Case::new("in a service")
                .at("service=s")
                .file(".pg_service.conf", "[s]\nhost=<host-a>\nport=<port-a>\nuser=guarded\ndbname=one\npassfile=<home>/elsewhere\n")
                .file("elsewhere", "*:*:*:*:s3cret\\:g\n")
                .reaches(GUARDED),
        ],
    );
}

#[test]
fn parameters_that_are_younger_than_the_installed_psql() {
    compare(
        place(),
        &[
            at_a("sslnegotiation=postgres").without_peer().reaches(AT_A),
            at_a("sslnegotiation=direct").without_peer().malformed("sslnegotiation"),
            at_a("sslnegotiation=direct sslmode=require").without_peer().refused("cannot connect"),
            at_a("load_balance_hosts=disable").without_peer().reaches(AT_A),
            Case::new("load_balance_hosts=random").at("host=<host-a>,127.0.0.1 port=<port-a>,1 user=keeper dbname=one load_balance_hosts=random").without_peer().reaches(AT_A),
            at_a("load_balance_hosts=bogus").without_peer().malformed("load_balance_hosts"),
            at_a("sslcertmode=disable").without_peer().reaches(AT_A),
            at_a("sslrootcert=system sslmode=require").without_peer().malformed("sslrootcert=system"),
            at_a("sslrootcert=system").without_peer().refused("TLS"),
            at_a("gssdelegation=0 min_protocol_version=3.0 max_protocol_version=latest").without_peer().reaches(AT_A),
            Case::new("servicefile").at("service=a servicefile=<home>/elsewhere").file("elsewhere", SERVICES).without_peer().reaches(AT_A),
        ],
    );
}

#[test]
fn every_verb_reads_the_service_and_the_password_file() {
    let place = place();
    let scratch = Watchdog::start();
    let home = scratch.directory();
    let word = |wanted| {
        place
            .words
            .iter()
            .find(|(word, _)| *word == wanted)
            .unwrap()
            .1
            .as_str()
    };
    let service = format!(
        "[s]\nhost={}\nport={}\nuser=guarded\ndbname=one\n",
        word("<host-a>"),
        word("<port-a>")
    );
    let passwords = home.join(".pgpass");
    fs::write(home.join(".pg_service.conf"), service).unwrap();
    fs::write(&passwords, "*:*:*:*:s3cret\\:g\n").unwrap();
    fs::set_permissions(&passwords, Permissions::from_mode(0o600)).unwrap();

    let pglock = || {
        Pglock::without_server()
            .env("HOME", home)
            .env("PGSERVICE", "s")
            .env("PGCONNECT_TIMEOUT", "60")
    };
    let holder = pglock().hold("every-verb");
    let busy = pglock().args(["try", "every-verb", "true"]).run();
    busy.assert_code(75).assert_stdout("").assert_one_message();
    let held = pglock().args(["list", "-q", "every-verb"]).run();
    held.assert_code(0).assert_silent();
    let freed = pglock().args(["release", "-f", "every-verb"]).run();
    freed.assert_code(0).assert_silent();
    holder.wait().assert_code(123);
    let freed = pglock().args(["list", "-q", "every-verb"]).run();
    freed.assert_code(1).assert_silent();
}

/// Where most cases lead.
const AT_A: &str = "<port-a> one keeper tcp";
const GUARDED: &str = "<port-a> one guarded tcp";

fn by_variables(name: &'static str) -> Case {
    Case::new(name)
        .env("PGHOST", "<host-a>")
        .env("PGPORT", "<port-a>")
        .env("PGUSER", "keeper")
        .env("PGDATABASE", "one")
}

/// A case of this further parameter.
fn at_a(parameter: &'static str) -> Case {
    Case::new(parameter)
        .env("PGDATABASE", "one")
        .args(["-h", "<host-a>", "-p", "<port-a>", "-U", "keeper"])
        .at(parameter)
}

fn guarded(name: &'static str) -> Case {
    Case::new(name)
        .env("PGHOST", "<host-a>")
        .env("PGPORT", "<port-a>")
        .env("PGUSER", "guarded")
        .env("PGDATABASE", "one")
}

/// Two servers which differ in their databases.
fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    static SERVERS: OnceLock<[Server; 2]> = OnceLock::new();
    PLACE.get_or_init(|| {
        let servers = SERVERS.get_or_init(|| {
            [
                server(&["one", "either", "keeper", "guarded", "\"a/b %\""]),
                server(&["two", "either"]),
            ]
        });
        let [a, b] = servers;
        a.execute("ALTER ROLE reader SET default_transaction_read_only = on");
        let name_of = |uid| User::from_uid(uid).unwrap().unwrap().name;
        let owner = fs::metadata(a.data_dir()).unwrap().uid();
        let directory = |server: &Server| server.socket_dir().to_str().unwrap().to_owned();
        Place {
            servers: vec![a, b],
            words: vec![
                ("<host-a>", a.host().to_owned()),
                ("<port-a>", a.port().to_string()),
                ("<dir-a>", directory(a)),
                ("<enc-a>", directory(a).replace('/', "%2F")),
                ("<host-b>", b.host().to_owned()),
                ("<port-b>", b.port().to_string()),
                ("<dir-b>", directory(b)),
                ("<me>", name_of(geteuid())),
                ("<owner>", name_of(Uid::from_raw(owner))),
            ],
        }
    })
}

/// A server with these databases, which `keeper` enters as it likes and the others with their passwords.
fn server(databases: &[&str]) -> Server {
    const ROLES: [(&str, &str); 7] = [
        ("keeper", ""),
        ("reader", ""),
        ("guarded", "s3cret:g"),
        ("sealed", "s3cret s"),
        ("\"odd @\"", "s3cret/?"),
        ("asking", "s3cret?q"),
        ("signed", "s3cret@x"),
    ];
    let server = Server::start();
    for database in databases {
        server.execute(&format!("CREATE DATABASE {database}"));
    }
    let me = User::from_uid(geteuid()).unwrap().unwrap().name;
    if me != "postgres" {
        server.execute(&format!("CREATE ROLE \"{me}\" LOGIN"));
    }
    for (role, password) in ROLES {
        server.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD '{password}'"));
    }
    server.execute(r"CREATE ROLE quoted LOGIN PASSWORD 's3cret''\'");
    server.execute(r#"CREATE ROLE "c:d\e" LOGIN PASSWORD 's3cret\c'"#);
    if TcpListener::bind("[::1]:0").is_ok() {
        let addresses = format!(
            "ALTER SYSTEM SET listen_addresses = '{}', '::1'",
            server.host()
        );
        server.execute(&addresses);
    }
    let rules = server.data_dir().join("pg_hba.conf");
    let others = fs::read_to_string(&rules).unwrap();
    // The plain password is hashed by the server, which takes less time than an unoptimized build's SCRAM.
    let guards = r#"guarded,"odd @",asking,signed,quoted,"c:d\e""#;
    let own = format!(
        "local all {guards} password\nhost all {guards} 127.0.0.0/8 password\nhost all sealed 127.0.0.0/8 scram-sha-256\n"
    );
    fs::write(&rules, own + &others).unwrap();
    server.stop(Shutdown::Fast);
    server.start_again();
    server
}
