//! Creates what the engine of a deployment lacks: for first steps and for emulators. What is there
//! already stays as it is.

use crate::aws::clients::Sdk;
use crate::config::is_loopback;
use crate::config::services::{EngineConfig, ServicesConfig};
use crate::engine::EngineError;
use crate::engine::aws::create::{Creation, OnReady};
use crate::model::time::Clock;

/// Sets up all that `config` names; what is reported of it begins with the AWS region. The other
/// engines need nothing.
///
/// # Errors
/// What AWS says, if it does not pass.
pub async fn set_up(config: &ServicesConfig, clock: &Clock, on_ready: &OnReady<'_>) -> Result<(), EngineError> {
    let EngineConfig::Aws { region: home, prefix, endpoint_url } = &config.engine else { return Ok(()) };
    let sdk = Sdk::new(endpoint_url.clone());
    let clients = sdk.engine_clients(home).await;
    // Reading many shards is slow on an emulator.
    let shards = endpoint_url.as_ref().is_some_and(is_loopback).then_some(1);
    let creation = Creation {
        clients: &clients,
        prefix,
        clock: clock.clone(),
        on_ready: &|what: &str, was_there| on_ready(&format!("{home}: {what}"), was_there),
    };
    creation.home(shards).await?;
    for region in &config.regions {
        let clients = sdk.engine_clients(&region.name).await;
        let creation = Creation {
            clients: &clients,
            prefix,
            clock: clock.clone(),
            on_ready: &|what: &str, was_there| on_ready(&format!("{}: {what}", region.name), was_there),
        };
        creation.region().await?;
        if let Some(topic) = &region.topic {
            let clients = sdk.engine_clients(&topic.region).await;
            Creation { clients: &clients, ..creation }.topic(topic).await?;
        }
    }
    Ok(())
}

/// Things that the file does not name, and that so were not created; `None` if there are none.
pub fn left_out(config: &ServicesConfig) -> Option<&'static str> {
    config.regions.is_empty().then_some(
        "no region's tables and no topic: the file names no region; run `nearside setup` with each region's own file",
    )
}
