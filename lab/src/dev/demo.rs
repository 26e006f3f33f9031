//! `nearside-lab dev`: builds the world, starts the sidecar against it, tells the story
//! ([`super::story`], [`super::screen`]), and stays up. The caller says how to start a sidecar from
//! a configuration. The sidecar is the program that runs in production, configured by text as an
//! operator would; only its AWS endpoint and its trust in the signer point into this world.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nearside::config::services::AccessMode;

use super::build::{DevWorld, DevWorldError};
use super::contents::{LIMITS, PROFILE, batch_path};
use super::measured::{Story, StoryEvent};
use super::ports::{CONTROL_PORT, Ports};
use super::schema::SchemaFile;
use super::screen::{ByHand, Screen};
use super::story;
use super::story_error::StoryError;
use crate::chaos_server::port::Port;

/// The sidecar's port when ports are fixed.
pub const SIDECAR_PORT: u16 = 8700;
/// The sidecar's admin port when ports are fixed.
pub const ADMIN_PORT: u16 = 8701;

#[derive(Clone, Debug)]
pub struct DevOptions {
    /// Which ports to use; taken ones are replaced, with a note.
    pub ports: Ports,
    /// The exact port of the sidecar; otherwise it is [`SIDECAR_PORT`], or another one if that is
    /// taken.
    pub port: Option<u16>,
    /// Folder of the records, if they are to outlive this; otherwise they are in memory.
    pub data: Option<PathBuf>,
    /// True to play the story; without it everything starts and stays up.
    pub story: bool,
    /// Ends after the story (for tests).
    pub exit_after_demo: bool,
    /// Extent to which catalogue and regions check their callers.
    pub access: AccessMode,
    /// The pause after each step, so that a person can read it.
    pub pace: Duration,
    /// True if a person is looking, who gets colour and progress.
    pub terminal: bool,
    /// Name of this program here, for commands that can be pasted.
    pub program: Cow<'static, str>,
}

pub struct DemoSidecar {
    /// Address for applications.
    pub tcp: SocketAddr,
    /// Address for operators.
    pub admin: SocketAddr,
    /// Stops it in order when awaited.
    pub stop: BoxFuture<'static, ()>,
}

#[derive(Debug, thiserror::Error)]
pub enum DevError {
    #[error(transparent)]
    World(#[from] DevWorldError),
    /// The requested port is taken; another one helps.
    #[error("port {0} is in use: write another one after --port, or leave it out")]
    Taken(u16),
    /// The sidecar did not start; the text is its starter's reason.
    #[error("the sidecar did not start: {0}")]
    Sidecar(String),
    /// The story could not go on.
    #[error(transparent)]
    Story(#[from] StoryError),
    /// The directory for temporary files does not take one.
    #[error("the schema of the view cannot be written below TMPDIR: {0}")]
    Schema(io::Error),
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Runs everything until `stop` resolves, or until the end of the story if the options say so.
///
/// `start` starts a sidecar from configuration text. Returns what was measured, or `None` if `stop`
/// came first or no story was wanted.
pub async fn run<S>(
    options: DevOptions,
    out: &mut dyn Write,
    start: S,
    stop: impl Future<Output = ()>,
) -> Result<Option<Story>, DevError>
where
    S: AsyncFnOnce(String) -> Result<DemoSidecar, String>,
{
    if let Some(port) = options.port.filter(|port| Port::hold(*port).is_err()) {
        return Err(DevError::Taken(port));
    }
    let schema = SchemaFile::write().map_err(DevError::Schema)?;
    let mut world = DevWorld::start(options.ports, options.data.clone(), options.access).await?;
    let config = sidecar_config(&mut world, &options, &schema);
    let sidecar = match start(config).await {
        Ok(sidecar) => sidecar,
        Err(why) => {
            world.stop().await;
            return Err(DevError::Sidecar(why));
        }
    };
    let mut screen = Screen::new(out, options.terminal);
    let outcome = {
        let stay_up = async {
            begin(&mut world, &sidecar, &mut screen).await?;
            let story = if options.story {
                // On the heap: it is large, and so is whatever waits for it.
                Some(Box::pin(tell(&world, &sidecar, &options, &mut screen)).await?)
            } else {
                None
            };
            if !options.exit_after_demo {
                screen.line("")?;
                screen.line("Everything stays up until Ctrl-C.")?;
                std::future::pending::<()>().await;
            }
            Ok(story)
        };
        tokio::select! {
            outcome = stay_up => outcome,
            () = stop => Ok(None),
        }
    };
    // In this order, because the sidecar removes its queues and subscriptions from the world.
    sidecar.stop.await;
    world.stop().await;
    outcome
}

/// Shows the opening, and waits until everything works.
async fn begin(world: &mut DevWorld, sidecar: &DemoSidecar, screen: &mut Screen<'_>) -> Result<(), DevError> {
    screen.opening(world, &format!("http://{}", sidecar.tcp), &format!("http://{}", sidecar.admin))?;
    let began = world.clock.now();
    story::subscribed(world).await?;
    world.ingest().await?;
    story::filled(world).await?;
    let fresh = ready(sidecar.admin, Duration::from_secs(3)).await;
    let took = (world.clock.now() - began).as_millis();
    screen.line(&format!("Subscribed in {} regions after {took} ms; /readyz says {fresh}", world.regions.len()))?;
    Ok(())
}

async fn tell(
    world: &DevWorld,
    sidecar: &DemoSidecar,
    options: &DevOptions,
    screen: &mut Screen<'_>,
) -> Result<Story, DevError> {
    let (tcp, admin) = (format!("http://{}", sidecar.tcp), format!("http://{}", sidecar.admin));
    let mut broken = None;
    let story = story::run_story(world, sidecar.tcp, async |event| {
        let is_result = !matches!(event, StoryEvent::Begin(_) | StoryEvent::Progress(..));
        broken = screen.tell(event).err().or(broken.take());
        if is_result {
            tokio::time::sleep(options.pace).await;
        }
    });
    let story = story.await?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    let control =
        if world.control.port() == CONTROL_PORT { String::new() } else { format!(" --control {}", world.control) };
    let (region, region_admin) = (world.region(0).url(), format!("http://{}", world.regions[0].node_admin));
    let (program, sidecar, admin) = (options.program.as_ref(), tcp.as_str(), admin.as_str());
    let hand = ByHand { program, sidecar, admin, region: &region, region_admin: &region_admin, control: &control };
    screen.commands(&story, &hand)?;
    Ok(story)
}

/// Asks `/readyz` until it says fresh, for at most `within`; returns its last answer.
async fn ready(admin: SocketAddr, within: Duration) -> String {
    let url = format!("http://{admin}/readyz");
    let mut last = "nothing".to_owned();
    let asking = async {
        let Ok(client) = reqwest::Client::builder().no_proxy().tls_certs_only([]).build() else { return };
        while last != "fresh" {
            if let Ok(response) = client.get(&url).send().await {
                let said = response.bytes().await.unwrap_or_default();
                let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
                said["state"].as_str().unwrap_or("something else").clone_into(&mut last);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // Not being fresh in time is no failure; the line shows the state.
    let _ = tokio::time::timeout(within, asking).await;
    last
}

/// The sidecar's configuration, as an operator would write it.
fn sidecar_config(world: &mut DevWorld, options: &DevOptions, schema: &SchemaFile) -> String {
    let tcp = options.port.unwrap_or_else(|| options.ports.free(SIDECAR_PORT, "the sidecar", &mut world.notes));
    let admin = options.ports.free(ADMIN_PORT, "the admin page", &mut world.notes);
    let mut text = String::from("[service]\nname = \"contexts\"\nversion_header = \"x-record-version\"\n");
    for region in world.regions.iter() {
        let _ = writeln!(
            text,
            "\n[[service.region]]\nname = \"{}\"\nurl = \"{}\"\ntopic = \"{}\"",
            region.server.name,
            region.server.url(),
            region.topic,
        );
    }
    for view in [LIMITS, PROFILE] {
        let _ = writeln!(
            text,
            "\n[[service.route]]\npath = \"/v1/contexts/{{key}}/{view}\"\nrecords = [\"{view}:{{key}}\"]\n\
             fields = \"fields\"\nbatch = \"{batch}\"\nupstream_batch = \"{batch}\"\n{own}",
            batch = batch_path(view),
            own = world.issuer.route(),
        );
        if view == LIMITS {
            let _ = writeln!(text, "schema = \"{}\"", schema.named());
        }
    }
    let base = &world.aws.base;
    let _ = write!(
        text,
        "\n[listen]\ntcp = \"127.0.0.1:{tcp}\"\n\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\n[announcements]\n\
         transport = \"sqs\"\nendpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n\n[drain]\nlinger = \"0s\"\n\
         deadline = \"5s\"\n\n[log]\nfilter = \"error\"\n"
    );
    text
}

#[cfg(test)]
mod tests;
