//! The story's last step: who is answered at a region, and how long a grant that is withdrawn lives on
//! there and in what the sidecar has stored.

use futures_util::future::join_all;

use super::access::{Audience, OTHER, READER};
use super::build::DevWorld;
use super::contents::{KEY, LIMITS, PROFILE};
use super::measured::{StoryAccess, StoryStop};
use super::reader::{Seen, WorldReader};
use super::story_error::{StoryError, TIMEOUT, late};

/// Asks the nearest region as three callers, then takes the rights of the sidecar's consumer away and
/// gives them back.
pub(super) async fn run(world: &DevWorld, caller: &WorldReader) -> Result<StoryAccess, StoryError> {
    let region = &world.regions[0].server;
    let nobody = WorldReader::new(region.address(), world.clock.clone())?;
    let other = nobody.with_token(world.issuer.token(OTHER, Audience::Regions));
    let (anonymous, foreign) = (nobody.get_view(LIMITS, KEY).await, other.get_view(LIMITS, KEY).await);
    let own = other.get_view(PROFILE, KEY).await;
    let stop = stop(world, caller).await?;
    Ok(StoryAccess { region: region.name.clone(), anonymous, foreign, own, stop })
}

async fn stop(world: &DevWorld, caller: &WorldReader) -> Result<StoryStop, StoryError> {
    let (at, since) = (world.clock.wall(), world.clock.now());
    world.catalogue.stop_consumer(READER, true).await?;
    let regions = join_all(world.regions.iter().map(|region| async {
        let reader = WorldReader::new(region.server.address(), world.clock.clone())?;
        let reader = reader.with_token(world.issuer.token(READER, Audience::Regions));
        refused(&reader).await?;
        Ok::<_, StoryError>((region.server.name.clone(), world.clock.now() - since))
    }));
    let caller_refused = async {
        refused(caller).await?;
        Ok::<_, StoryError>(world.clock.now() - since)
    };
    let (regions, caller_refused) = tokio::join!(regions, caller_refused);
    let since = world.clock.now();
    world.catalogue.stop_consumer(READER, false).await?;
    let back = caller.until(KEY, TIMEOUT, Seen::is_good).await;
    back.ok_or(late("the grant that was given back"))?;
    let given_back = world.clock.now() - since;
    Ok(StoryStop { at, regions: regions.into_iter().collect::<Result<_, _>>()?, caller: caller_refused?, given_back })
}

async fn refused(reader: &WorldReader) -> Result<Seen, StoryError> {
    let seen = reader.until(KEY, TIMEOUT, |seen| seen.status == Some(403)).await;
    seen.ok_or(late("the withdrawal to arrive"))
}
