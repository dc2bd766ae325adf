//! Deficit round robin over queues, with a memory of the queues that were just served.
//!
//! A consumer with a short window has nothing that waits between an Interest and its Data. Its
//! queue is empty for a round-trip time then, and must not lose its share by that:
//!
//! * a queue that has become empty keeps its place until its turn, as in FQ-CoDel (RFC 8290);
//! * one that comes back after its turn had passed is served before the others;
//! * one that was never served begins at the end, and is served in its first turn.
//!
//! Invariant: no queue goes ahead of the others twice without a turn in between that it let pass.
//! So it gets no more than a queue in which Interests wait all the time.

use std::collections::VecDeque;

/// Bytes of Data that a queue may ask for in one turn.
const QUANTUM: f64 = 9000.0;

/// A queue that is served in turn.
pub(super) trait Queue {
    /// Returns the cost of its next Interest, bytes of Data. `None` if it is empty.
    fn next_cost(&mut self) -> Option<f64>;
}

#[derive(Debug)]
struct Turn<Q> {
    queue: Q,
    deficit: f64,
}

/// Queues in the order of their turns.
#[derive(Debug)]
pub(super) struct Turns<Q> {
    order: VecDeque<Turn<Q>>,
    /// Queues at the front that came back after their turn had passed.
    returned: usize,
}

impl<Q> Default for Turns<Q> {
    fn default() -> Self {
        Turns { order: VecDeque::new(), returned: 0 }
    }
}

impl<Q: Queue> Turns<Q> {
    /// Returns all queues, also empty ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Q> + Clone {
        self.order.iter().map(|turn| &turn.queue)
    }

    /// Returns all queues, also empty ones.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Q> {
        self.order.iter_mut().map(|turn| &mut turn.queue)
    }

    /// Adds a queue that is served after all others.
    pub(super) fn push_last(&mut self, queue: Q) {
        self.order.push_back(Turn { queue, deficit: QUANTUM });
    }

    /// Adds a queue whose turn passed while it was empty: it is served before the others.
    pub(super) fn push_returned(&mut self, queue: Q) {
        self.order.insert(self.returned, Turn { queue, deficit: QUANTUM });
        self.returned += 1;
    }

    /// Returns the next queue in turn and the cost of its Interest. Passes each queue that was
    /// empty in its turn to `on_passed`.
    pub(super) fn next(&mut self, mut on_passed: impl FnMut(Q)) -> Option<(&mut Q, f64)> {
        // Each round adds a quantum, so a queue is served after a bounded number of rounds.
        let cost = loop {
            let turn = self.order.front_mut()?;
            match turn.queue.next_cost() {
                Some(cost) if turn.deficit >= cost => break cost,
                Some(_) => self.end_turn(),
                None => {
                    let passed = self.order.pop_front()?;
                    self.returned = self.returned.saturating_sub(1);
                    on_passed(passed.queue);
                }
            }
        };
        self.order.front_mut().map(|turn| (&mut turn.queue, cost))
    }

    /// Records that the queue in turn was served at this cost.
    pub(super) fn on_served(&mut self, cost: f64) {
        let Some(turn) = self.order.front_mut() else { return };
        turn.deficit -= cost;
        match turn.queue.next_cost() {
            Some(cost) if turn.deficit >= cost => {}
            Some(_) => self.end_turn(),
            None => {
                turn.deficit = 0.0;
                self.end_turn();
            }
        }
    }

    /// Moves the turn on. The quantum of the next turn is added now, so that a queue is served as
    /// soon as its turn comes.
    fn end_turn(&mut self) {
        if let Some(turn) = self.order.front_mut() {
            turn.deficit += QUANTUM;
            self.order.rotate_left(1);
            self.returned = self.returned.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interests that wait: of queue `z` each at a cost of two quanta, of others of a ninth.
    struct Waiting {
        name: char,
        interests: u32,
    }

    const COST: f64 = QUANTUM / 9.0;

    impl Queue for Waiting {
        fn next_cost(&mut self) -> Option<f64> {
            let cost = if self.name == 'z' { 2.0 * QUANTUM } else { COST };
            (self.interests > 0).then_some(cost)
        }
    }

    fn serve(turns: &mut Turns<Waiting>, count: usize) -> String {
        let mut served = String::new();
        for _ in 0..count {
            let Some((queue, cost)) = turns.next(|_| {}) else { break };
            queue.interests -= 1;
            served.push(queue.name);
            turns.on_served(cost);
        }
        served
    }

    fn set(turns: &mut Turns<Waiting>, name: char, interests: u32) {
        let queue = turns.iter_mut().find(|queue| queue.name == name);
        queue.expect("a queue with a place").interests = interests;
    }

    #[test]
    fn queue_that_was_emptied_has_one_quantum_next() {
        let mut turns = Turns::default();
        turns.push_last(Waiting { name: 'a', interests: 1 });
        turns.push_last(Waiting { name: 'b', interests: 100 });
        assert_eq!(serve(&mut turns, 10), "abbbbbbbbb");
        set(&mut turns, 'a', 100);
        assert_eq!(serve(&mut turns, 27), "aaaaaaaaabbbbbbbbbaaaaaaaaa", "nothing was saved up");
    }

    #[test]
    fn queue_of_large_cost_is_served_in_every_second_round() {
        let mut turns = Turns::default();
        turns.push_last(Waiting { name: 'z', interests: 100 });
        turns.push_last(Waiting { name: 'b', interests: 100 });
        assert_eq!(serve(&mut turns, 29), "bbbbbbbbbzbbbbbbbbbbbbbbbbbbz");
    }

    #[test]
    fn queue_that_is_empty_in_its_turn_loses_its_place() {
        let mut turns = Turns::default();
        turns.push_last(Waiting { name: 'a', interests: 1 });
        turns.push_last(Waiting { name: 'b', interests: 100 });
        assert_eq!(serve(&mut turns, 10), "abbbbbbbbb");
        let mut passed = Vec::new();
        let next = turns.next(|queue| passed.push(queue.name)).map(|(queue, _)| queue.name);
        assert_eq!((next, passed), (Some('b'), vec!['a']));
        assert_eq!(turns.iter().count(), 1);
    }

    #[test]
    fn queues_that_returned_are_served_first_in_their_order() {
        let mut turns = Turns::default();
        turns.push_last(Waiting { name: 'a', interests: 100 });
        turns.push_returned(Waiting { name: 'b', interests: 1 });
        turns.push_returned(Waiting { name: 'c', interests: 20 });
        assert_eq!(serve(&mut turns, 11), "bccccccccca");
        // Behind one of them that is not served yet, and before those whose turn is later.
        turns.push_returned(Waiting { name: 'd', interests: 1 });
        turns.push_returned(Waiting { name: 'e', interests: 1 });
        turns.push_last(Waiting { name: 'f', interests: 1 });
        assert_eq!(serve(&mut turns, 3), "dea");
    }
}
