//! Whole runs through a relay that makes the server far away: how many round trips a run takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::goals::{self, Goal};
use crate::options::{Options, Subject};
use crate::program::{Program, Work};
use crate::relay::Relay;
use crate::report::{Bound, Figure, Section};
use crate::rounds::{self, Lane, Spread};
use crate::site::{Site, Way};

const PROGRAMS: [Program; 4] = [
    Program::Pglock,
    Program::Static,
    Program::Floor,
    Program::LibpqFloor,
];

const MOST_ROUNDS: u32 = 40;
/// A round trip's length, in microseconds, and in each how many-th round it is measured.
const DISTANCES: [(u64, u32); 3] = [(500, 1), (20_000, 4), (100_000, 8)];

/// A shorter one is lost in what a busy machine adds to a run.
const CLEAR: Duration = Duration::from_millis(20);

/// With `--check` there is one, which noise does not hide.
const CHECK_ROUNDS: u32 = 10;
const CHECK_DISTANCES: [(u64, u32); 1] = [(20_000, 1)];

/// How often a byte is sent to and fro to see how long a round trip really is.
const ECHOES: usize = 25;

const WALL: &str = "wall time";
const TRIPS: &str = "round trips";

/// A distance, and the relay that makes it.
struct Far {
    relay: Relay,
    nominal: Duration,
    every: u32,
    /// What a byte needs to get there and back.
    measured: Duration,
}

type Runs = Lane<(Way, Program, Duration)>;

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let server = SocketAddr::new(site.address.parse()?, site.port);
    let (rounds, distances) = if options.check {
        (CHECK_ROUNDS, CHECK_DISTANCES.as_slice())
    } else {
        (options.rounds.min(MOST_ROUNDS), DISTANCES.as_slice())
    };
    let near = Far::new(server, 0, 1)?;
    let far: Vec<Far> = distances
        .iter()
        .map(|&(micros, every)| Far::new(server, micros, every))
        .collect::<Result<_>>()?;

    let mut lanes = Vec::new();
    for far in far.iter().chain([&near]) {
        lanes.extend(far.lanes(site, options));
    }
    rounds::interleave(&mut lanes, rounds)?;

    let mut figures = Vec::new();
    let mut bounds = Vec::new();
    for far in &far {
        let mut of_distance = Vec::new();
        for lane in lanes.iter().filter(|lane| lane.key.2 == far.nominal) {
            of_distance.extend(far.figures(lane, &lanes, near.measured)?);
        }
        let goal = if far.nominal < CLEAR {
            goals::NONE
        } else {
            goals::TRIPS_MORE
        };
        bounds.extend(beside_floors(&of_distance, goal));
        figures.extend(of_distance);
    }
    Ok(Section {
        subject: Subject::RoundTrips,
        note: "Through a relay that delays what is sent, by half a round trip each way. Round trips are what that adds to the wall \
               time of the quickest run, since noise only ever adds, in times of what it adds to a byte's way to and fro. TCP's own \
               handshake is not delayed. 0.5 ms are told from noise on an idle machine only."
            .to_owned(),
        figures,
        bounds,
    })
}

impl Far {
    fn new(server: SocketAddr, micros: u64, every: u32) -> Result<Self> {
        let nominal = Duration::from_micros(micros);
        Ok(Self {
            relay: Relay::to(server, nominal)?,
            nominal,
            every,
            measured: echo_time(nominal)?,
        })
    }

    fn lanes(&self, site: &Site, options: &Options) -> Vec<Runs> {
        let present = Program::present(site, options);
        let mut lanes = Vec::new();
        for way in [Way::Tcp, Way::Tls] {
            let place = site.place_behind(way, self.relay.address().port());
            let programs = PROGRAMS.into_iter();
            for program in
                programs.filter(|program| program.knows(way) && present.contains(program))
            {
                let command = program.command(site, options, &place, Work::Nothing);
                lanes.push(Lane::new((way, program, self.nominal), command, self.every));
            }
        }
        lanes
    }

    fn figures(&self, lane: &Runs, lanes: &[Runs], near: Duration) -> Result<[Figure; 2]> {
        let (way, program, _) = lane.key;
        let beside = lanes
            .iter()
            .find(|other| other.key == (way, program, Duration::ZERO))
            .context("each program has a run without delay")?;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let added = lane.wall().least - beside.wall().least;
        let trips = added / (milliseconds(self.measured) - milliseconds(near));
        let condition = format!("{}, {} ms away", way.label(), milliseconds(self.nominal));
        Ok([
            Figure::times(&condition, program, WALL, lane.wall()),
            Figure::single(&condition, program, TRIPS, "", trips),
        ])
    }
}

/// Each build beside each floor.
fn beside_floors(figures: &[Figure], goal: Goal) -> Vec<Bound> {
    let trips = |figure: &&Figure| figure.measure == TRIPS;
    let of = |figure: &&Figure, programs: &[Program]| {
        programs
            .iter()
            .any(|program| program.label() == figure.program)
    };
    let mut bounds = Vec::new();
    let ours = figures.iter().filter(trips);
    for figure in ours.filter(|figure| of(figure, &[Program::Pglock, Program::Static])) {
        let floors = figures.iter().filter(trips);
        let floors = floors.filter(|floor| of(floor, &[Program::Floor, Program::LibpqFloor]));
        for floor in floors.filter(|floor| floor.condition == figure.condition) {
            bounds.push(figure.excess_over(floor, goal));
        }
    }
    bounds
}

/// The least time that a byte takes through a relay to somebody who sends it back.
fn echo_time(round_trip: Duration) -> Result<Duration> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let relay = Relay::to(listener.local_addr()?, round_trip)?;
    let mut near = TcpStream::connect(relay.address())?;
    let (mut far, _) = listener.accept()?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
    }
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(ECHOES);
    for _ in 0..ECHOES {
        let begun = Instant::now();
        near.write_all(b"!")?;
        near.read_exact(&mut [0])?;
        times.push(begun.elapsed().as_secs_f64());
    }
    drop(near);
    drop(echo.join());
    Ok(Duration::from_secs_f64(Spread::of(times).least))
}
