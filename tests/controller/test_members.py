"""Several brokers, one controller among them: failures, returns, failovers, zombies, outages."""

from __future__ import annotations

import asyncio

import pytest

from tests.controller.clusters import T0
from tests.controller.members import Member, Members, pause, play
from tidelog.controller import (
    NO_BROKER,
    ConfigAlteration,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    ElectionType,
    IsrChange,
    NewTopic,
    PartitionState,
    ReplicaEnd,
)
from tidelog.controller.service import BrokerIdTaken
from tidelog.model import ApiError, ErrorCode, TopicPartition


async def create(member: Member, *, assignment: tuple[int, ...] = (1, 2, 3), **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    [result] = await member.service.create_topics([NewTopic(name="t", assignments={0: assignment}, configs=named)])
    assert result.error is None


async def propose(member: Member, members: Members, *isr: int) -> PartitionState | ApiError:
    """As the leader of the partition would."""
    state, brokers = members.state(), members.image.brokers
    change = IsrChange(
        topic="t",
        index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=tuple((one, brokers[one].broker_epoch) for one in isr),
    )
    [answer] = await member.service.alter_partition(state.leader, brokers[state.leader].broker_epoch, [change])
    return answer


def test_first_broker_is_the_controller_and_all_know_it() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        assert [member.service.is_active for member in (one, two, three)] == [True, False, False]
        assert [member.service.controller_id for member in (one, two, three)] == [1, 1, 1]
        assert {broker.broker_epoch for broker in members.image.brokers.values()} == {
            member.service.broker_epoch for member in (one, two, three)
        }
        assert [member.epochs for member in (one, two, three)] == [
            [member.service.broker_epoch] for member in (one, two, three)
        ]

    play(story)


def test_dead_leader_is_replaced_and_its_return_is_a_start() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3, 1))
        two.kill()
        await members.until(lambda: members.state().leader == 3)
        assert (members.state().isr, members.state().leader_epoch, list(members.image.brokers)) == ((3, 1), 1, [1, 3])
        again = await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        assert (members.state().leader, members.state().isr) == (3, (3, 1))
        assert members.image.brokers[2].broker_epoch == again.service.broker_epoch > two.epochs[0]
        after = await propose(one, members, 3, 1, 2)
        assert isinstance(after, PartitionState)
        [(_, error)] = await one.service.elect_leaders(ElectionType.PREFERRED, [T0], 1000)
        assert (error, members.state().leader, members.state().leader_epoch) == (None, 2, 2)

    play(story)


def test_broker_that_bounces_between_two_looks_has_failed_and_started() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3, 1))
        session = two.registry.session_id
        assert session is not None
        members.store.cut("b1")  # for a moment, in which the controller cannot look
        two.kill()
        members.store.expire(session)
        again = await members.started(2)
        members.store.heal("b1")
        await members.until(lambda: members.image.brokers[2].broker_epoch == again.service.broker_epoch)
        await members.until(lambda: members.state().leader == 3)
        assert (members.state().isr, members.state().leader_epoch) == ((2, 3, 1), 1)

    play(story)


def test_dead_controller_is_replaced_by_another_that_knows_everything() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        await create(one, retention_ms="7")
        before = members.state()
        one.kill()
        await members.until(lambda: members.controller is not one and members.state().leader == 2)
        assert members.image.controller_epoch == 2
        assert members.image.topics["t"].configs == {"retention.ms": "7"}
        assert (members.state().isr, members.state().leader_epoch) == ((2, 3), before.leader_epoch + 1)
        other = three if members.controller is two else two
        await members.until(lambda: other.service.controller_id == members.controller.service.controller_id)

    play(story)


def test_failover_changes_nothing_that_is_right() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one, assignment=(2, 3))
        before = members.state()
        await one.stop()
        await members.until(lambda: members.controller is not one)
        await members.until(lambda: members.image.controller_epoch == 2)
        assert members.state() == before

    play(story)


def test_leader_that_restarts_together_with_the_controller_gets_a_new_epoch() -> None:
    """A leader that may have lost its tail must not go on in its epoch, even if no controller saw it die."""

    async def story(members: Members) -> None:
        one, two, three = await members.three()
        await create(one, assignment=(2,))
        for member in (one, two, three):
            member.kill()
        await members.started(2)
        await members.until(lambda: members.state().leader == 2)
        assert members.state().leader_epoch == 1

    play(story)


def test_all_brokers_restart_and_the_whole_isr_is_back() -> None:
    async def story(members: Members) -> None:
        for member in await members.three():
            if member.service.is_active:
                await create(member, min_insync_replicas="2")
        for member in list(members.everybody):
            member.kill()
        await pause(20)
        await members.started(3)
        await members.until(lambda: members.state().leader == 3)
        assert (members.state().isr, members.state().eligible) == ((3,), (1, 2))
        await members.started(1)
        await members.until(lambda: 1 in members.image.brokers)
        members.everybody[-2].kill()
        await members.until(lambda: members.state().leader == 1)
        assert (members.state().isr, set(members.state().eligible)) == ((1,), {2, 3})

    play(story)


# Zombies and sessions (C01, C02).


def test_paused_controller_finds_its_office_taken_and_writes_nothing() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        members.store.cut("b1")
        await members.until(lambda: two.service.is_active or three.service.is_active)
        assert one.service.is_active  # it does not know better, and is fenced all the same
        members.store.heal("b1")
        [result] = await one.service.create_topics([NewTopic(name="t")])
        assert result.error is not None
        assert result.error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        await members.until(lambda: not one.service.is_active)
        assert one.channels.withdrawals == 1
        await members.until(lambda: list(members.image.brokers) == [1, 2, 3])
        assert "t" not in members.image.topics
        assert len(one.epochs) == 2
        assert one.service.controller_id == members.image.controller_id

    play(story)


def test_controller_that_did_not_hear_of_its_successor_is_fenced_by_the_epoch() -> None:
    """Its session is well, so nothing but the guard of every write stops it."""

    async def story(members: Members) -> None:
        members.is_deaf = True
        one = await members.started(1)
        members.is_deaf = False
        others = [await members.started(broker_id) for broker_id in (2, 3)]
        await members.until(lambda: list(members.image.brokers) == [1, 2, 3])
        await create(one)
        operator = members.store.handle("operator")
        await operator.open_session()
        await operator.delete("/controller")
        await members.until(lambda: any(member.service.is_active and member.channels.images for member in others))
        heir = next(member for member in others if member.service.is_active)
        believed = one.channels.images[-1]
        state = believed.topics["t"].partitions[0]
        change = IsrChange(
            topic="t",
            index=0,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=((1, believed.brokers[1].broker_epoch),),
        )
        assert one.service.is_active
        with pytest.raises(ApiError) as refused:
            await one.service.alter_partition(1, believed.brokers[1].broker_epoch, [change])
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert (one.service.is_active, one.channels.withdrawals) == (False, 1)
        node = await operator.get("/brokers/topics/t/partitions/0/state")
        assert node.version == heir.channels.images[-1].topics["t"].partitions[0].partition_epoch == 0
        await members.until(lambda: one.service.controller_id == heir.service.controller_id != 1)

    play(story)


def test_session_that_ends_is_replaced_under_a_new_epoch_and_the_office_contended_for() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one)
        session = one.registry.session_id
        assert session is not None
        members.store.expire(session)
        await members.until(lambda: not one.service.is_active)
        await members.until(lambda: list(members.image.brokers) == [1, 2, 3])
        assert one.service.broker_epoch == one.epochs[1] > one.epochs[0]
        assert members.image.brokers[1].is_intact
        await members.until(lambda: members.state().leader == 2)
        assert 2 in members.state().isr

    play(story)


def test_session_that_ends_during_the_start_is_replaced() -> None:
    async def story(members: Members) -> None:
        one = Member(members, 1, 0)
        members.everybody.append(one)
        one.lapses = 1
        await one.start()
        await members.until(lambda: members.image.brokers[1].broker_epoch == one.service.broker_epoch)
        assert len(one.epochs) == 2

    play(story)


def test_registry_that_is_away_for_a_while_changes_nothing() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one)
        before = members.image
        members.store.is_available = False
        [result] = await one.service.create_topics([NewTopic(name="u")])
        assert result.error is not None
        assert result.error.code is ErrorCode.REQUEST_TIMED_OUT
        await pause(30)
        assert (one.service.is_active, one.channels.withdrawals, members.image) == (True, 0, before)
        members.store.heal()
        [result] = await one.service.create_topics([NewTopic(name="u")])
        assert result.error is None
        assert (members.state(), members.image.controller_epoch) == (before.topics["t"].partitions[0], 1)

    play(story)


def test_broker_that_died_during_an_outage_is_seen_after_it() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 1))
        members.store.is_available = False
        two.kill()
        await pause(5)
        assert members.state().leader == 2
        members.store.heal()
        await members.until(lambda: members.state().leader == 1)

    play(story)


def test_id_of_a_broker_that_died_without_a_word_is_free_when_its_session_is_over() -> None:
    async def story(members: Members) -> None:
        _, two, _ = await members.three()
        two.kill(lost_power=True)
        again = await members.started(2)
        assert again.service.broker_epoch > two.epochs[0]

    play(story)


def test_broker_whose_place_was_taken_while_it_was_away_ends() -> None:
    async def story(members: Members) -> None:
        _, two, _ = await members.three()
        members.store.cut("b2")
        session = two.registry.session_id
        assert session is not None
        members.store.expire(session)
        usurper = members.store.handle("elsewhere")
        await usurper.open_session()
        content = b'{"version":5,"host":"x","port":1,"endpoints":["PLAINTEXT://x:1"],"timestamp":"1"}'
        await usurper.create("/brokers/ids/2", content, ephemeral=True)
        members.store.heal("b2")
        with pytest.raises(BrokerIdTaken):
            await two.running

    play(story)


def test_brokers_are_seen_and_the_office_is_filled_without_any_watch() -> None:
    async def story(members: Members) -> None:
        members.is_deaf = True
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3, 1))
        two.kill()
        await members.until(lambda: members.state().leader == 3)
        one.kill()
        await members.until(lambda: members.controller is not one and members.state().isr == (3,))

    play(story)


def test_failed_write_of_the_controller_is_looked_after_without_another_command() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        members.store.cut_after_writes(0, next_write_happens=True)
        [result] = await one.service.create_topics([NewTopic(name="t")])
        assert result.error is not None
        members.store.heal()
        await members.until(lambda: "t" in members.image.topics, within_ms=1_000)

    play(story)


def test_more_commands_than_can_wait_are_refused() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        calls = [one.service.create_topics([NewTopic(name="t")]) for _ in range(1_001)]
        results = await asyncio.gather(*calls)
        codes = [result.error.code if result.error else None for [result] in results]
        assert (codes[0], codes[1], codes[-1]) == (None, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT)

    play(story)


def test_office_that_an_operator_clears_is_contended_for_again() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        operator = members.store.handle("operator")
        await operator.open_session()
        await operator.delete("/controller")
        await members.until(lambda: members.image.controller_epoch == 2)
        assert one.channels.withdrawals == 1

    play(story)


# Standing.


def test_members_that_all_lost_power_are_asked_for_their_ends() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        await create(one, assignment=(2, 3), min_insync_replicas="2")
        two.kill(lost_power=True)
        three.kill(lost_power=True)
        await members.until(lambda: not members.state().has_leader)
        await members.started(2, is_intact=False)
        await members.until(lambda: members.state().lost == (2,))
        await members.started(3, is_intact=False)
        await members.until(lambda: members.state().lost == (2, 3))
        one.channels.ends[2] = {T0: ReplicaEnd(0, 10)}
        await pause(1)
        assert not members.state().has_leader
        one.channels.ends[3] = {T0: ReplicaEnd(0, 12)}
        await members.until(lambda: members.state().leader == 3)
        assert (members.state().isr, members.state().lost, members.state().eligible) == ((3,), (), ())

    play(story)


def test_single_broker_that_lost_power_leads_again_after_a_look_at_its_log() -> None:
    async def story(members: Members) -> None:
        one = await members.started(1)
        await create(one, assignment=(1,))
        one.kill(lost_power=True)
        again = await members.started(1, is_intact=False)
        await members.until(lambda: members.state().lost == (1,))
        again.channels.ends[1] = {T0: ReplicaEnd(0, 3)}
        await members.until(lambda: members.state().leader == 1)
        assert again.channels.inquiries[0] == (1, (T0,))

    play(story)


def test_standing_is_taken_once_also_over_a_failover() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        await create(one, assignment=(1, 3))
        three.kill()
        await members.until(lambda: members.state().isr == (1,))
        await members.started(3, is_intact=False)
        await members.until(lambda: 3 in members.image.brokers)
        assert isinstance(await propose(one, members, 1, 3), PartitionState)
        one.kill()
        await members.until(lambda: members.controller is not one and members.state().leader == 3)
        assert members.state().isr == (3,)
        assert two.running.done() is False

    play(story)


# What leaders, brokers and operators ask for.


def test_broker_that_leaves_hands_over_and_its_next_life_may_lead() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3, 1))
        await one.service.create_topics([NewTopic(name="alone", assignments={0: (2,)})])
        remaining = await one.service.controlled_shutdown(2, two.service.broker_epoch)
        assert remaining == [TopicPartition("alone", 0)]
        assert (members.state().leader, members.state().isr) == (3, (3, 1))
        assert members.image.shutting_down == {2}
        refused = await propose(one, members, 3, 1, 2)
        assert isinstance(refused, ApiError)
        assert refused.code is ErrorCode.INELIGIBLE_REPLICA
        await two.stop()
        await members.until(lambda: 2 not in members.image.brokers)
        await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        assert members.image.shutting_down == frozenset()
        assert members.state(topic="alone").leader == 2

    play(story)


def test_shutdown_of_a_former_life_is_refused() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        with pytest.raises(ApiError) as refused:
            await one.service.controlled_shutdown(2, two.service.broker_epoch - 1)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH

    play(story)


def test_others_than_the_controller_refuse() -> None:
    async def story(members: Members) -> None:
        _, two, _ = await members.three()
        for refused in (
            two.service.alter_partition(1, 1, []),
            two.service.controlled_shutdown(1, 1),
            two.service.elect_leaders(ElectionType.PREFERRED, None, 1000),
            two.service.alter_reassignments({T0: (1,)}),
            two.service.on_replica_offline(1, 1, [T0]),
        ):
            with pytest.raises(ApiError) as error:
                await refused
            assert error.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(ApiError, match="not the controller"):
            two.service.list_reassignments()

    play(story)


def test_replica_whose_disk_failed_is_replaced() -> None:
    async def story(members: Members) -> None:
        one, two, three = await members.three()
        await create(one, assignment=(2, 3, 1))
        await one.service.on_replica_offline(2, two.epochs[0], [T0])
        assert (members.state().leader, members.state().isr) == (3, (3, 1))
        await one.service.on_replica_offline(3, three.epochs[0], [T0])
        assert (members.state().leader, members.state().isr) == (1, (1,))

    play(story)


def test_unclean_election_is_for_operators() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3))
        assert isinstance(await propose(one, members, 2), PartitionState)
        two.kill()
        await members.until(lambda: not members.state().has_leader)
        [(_, error)] = await one.service.elect_leaders(ElectionType.PREFERRED, [T0], 1000)
        assert error is not None
        assert error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await one.service.elect_leaders(ElectionType.UNCLEAN, None, 1000) == [(T0, None)]
        assert (members.state().leader, members.state().is_recovering) == (3, True)
        [(_, error)] = await one.service.elect_leaders(ElectionType.UNCLEAN, [T0], 1000)
        assert error is not None
        assert error.code is ErrorCode.ELECTION_NOT_NEEDED
        assert await one.service.elect_leaders(ElectionType.UNCLEAN, None, 1000) == []

    play(story)


def test_unclean_election_follows_when_it_is_allowed() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3))
        assert isinstance(await propose(one, members, 2), PartitionState)
        two.kill()
        await members.until(lambda: not members.state().has_leader)
        change = ConfigChange(name="unclean.leader.election.enable", operation=ConfigOperation.SET, value="true")
        alteration = ConfigAlteration(entity=ConfigEntity.TOPIC, name="t", changes=(change,))
        assert await one.service.alter_configs([alteration]) == [None]
        assert (members.state().leader, members.state().isr) == (3, (3,))

    play(story)


def test_raised_minimum_counts_when_no_leader_can_have_missed_it() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one, assignment=(2, 3))
        change = ConfigChange(name="min.insync.replicas", operation=ConfigOperation.SET, value="2")
        alteration = ConfigAlteration(entity=ConfigEntity.TOPIC, name="t", changes=(change,))
        assert await one.service.alter_configs([alteration]) == [None]
        early = await propose(one, members, 2)
        assert isinstance(early, PartitionState)
        assert early.eligible == ()
        assert isinstance(await propose(one, members, 2, 3), PartitionState)
        await members.until(lambda: members.image.former_minimums == {})
        later = await propose(one, members, 2)
        assert isinstance(later, PartitionState)
        assert later.eligible == (3,)

    play(story)


def test_leadership_is_given_back_some_time_after_an_election() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3))
        two.kill()
        await members.until(lambda: members.state().leader == 3)
        await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        assert isinstance(await propose(one, members, 3, 2), PartitionState)
        await members.until(lambda: members.state().leader == 2, within_ms=400_000)

    play(story)


def test_leadership_is_not_given_back_while_somebody_is_out_of_reach() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3))
        two.kill()
        await members.until(lambda: members.state().leader == 3)
        await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        one.channels.is_somebody_out_of_reach = True  # and who could not be told that it leads would lead nobody
        assert isinstance(await propose(one, members, 3, 2), PartitionState)
        await pause(700)
        assert members.state().leader == 3
        one.channels.is_somebody_out_of_reach = False
        await members.until(lambda: members.state().leader == 2, within_ms=10_000)

    play(story)


def test_leadership_is_not_given_back_if_that_is_turned_off() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2, 3))
        two.kill()
        await members.until(lambda: members.state().leader == 3)
        await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        assert isinstance(await propose(one, members, 3, 2), PartitionState)
        await pause(700)
        assert members.state().leader == 3

    play(story, auto_leader_rebalance_enable="false")


def test_partition_moves_when_its_new_replicas_are_in_sync() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one, assignment=(1, 2))
        assert await one.service.alter_reassignments({T0: (3, 2)}) == {T0: None}
        [running] = one.service.list_reassignments()
        assert (running.replicas, running.adding, running.removing) == ((3, 2, 1), (3,), (1,))
        answer = await propose(one, members, 1, 2, 3)
        assert isinstance(answer, PartitionState)
        assert answer.leader_epoch == 1  # what the leader is answered is what it proposed; the move comes after
        assert one.service.list_reassignments() == []
        after = members.state()
        assert (after.assignment, after.leader, after.isr, after.leader_epoch) == ((3, 2), 3, (2, 3), 2)

    play(story)


def test_move_goes_on_under_the_next_controller_and_can_be_cancelled_there() -> None:
    async def story(members: Members) -> None:
        one, _, _ = await members.three()
        await create(one, assignment=(2,))
        await one.service.alter_reassignments({T0: (3,)})
        one.kill()
        await members.until(lambda: members.controller is not one and bool(members.state()))
        heir = members.controller
        assert [move.adding for move in heir.service.list_reassignments()] == [(3,)]
        assert await heir.service.alter_reassignments({T0: None}) == {T0: None}
        after = members.state()
        assert (after.assignment, after.leader, after.isr, after.is_reassigned) == ((2,), 2, (2,), False)

    play(story)


def test_last_registered_epoch_is_remembered() -> None:
    async def story(members: Members) -> None:
        _, two, _ = await members.three()
        await two.stop()
        again = Member(members, 2, 99)
        assert await again.service.last_registered_epoch() == two.epochs[0]
        fresh = Member(members, 7, 98)
        assert await fresh.service.last_registered_epoch() is None
        await again.service.stop()
        await fresh.service.stop()

    play(story)


def test_topic_made_while_nobody_of_its_replicas_lives_waits_for_them() -> None:
    async def story(members: Members) -> None:
        one, two, _ = await members.three()
        await create(one, assignment=(2,))
        two.kill()
        await members.until(lambda: members.state().leader == NO_BROKER)
        assert members.state().isr == (2,)
        await members.started(2)
        await members.until(lambda: members.state().leader == 2)

    play(story)
