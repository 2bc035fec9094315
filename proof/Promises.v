(* The promises, each with all that it assumes. Read this file first, after Model.v.

   [assuming l] in a run means: no event of the run breaks an assumption of the list l. Events that break others may happen. *)
From Coq Require Import ZArith List Bool Arith.
From Redlock Require Import Model Exclusion Release Fences OrderedFences Clocks Worlds.
Import ListNotations.
Open Scope Z_scope.

Definition assuming (l : list assumption) (a : assumption) := negb (existsb (fun b => if assumption_eq a b then true else false) l).

(* The hypotheses on the lock and on its surroundings.
   right: it makes none of the mistakes. monotonic: clients' clocks are not set back. within_drift: while a client measures a time for
   which locks are confirmed less its allowance, a node measures less than that time. same_nodes: all clients are configured with the same nodes. *)
Definition as_described w := right w /\ monotonic w /\ within_drift w /\ same_nodes w.
Definition all_guarded w := forall c, guarded w c = true.

Ltac given H := destruct H as [Hright [Hmono [Hdrift Hsame]]].

(* PROMISE 1, EXCLUSION. Two valid locks with a name in common are one lock, in the hands of one client: at every instant t after any run. *)
Theorem promise_exclusion w tr s t c a d b x : as_described w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) init tr = Some s -> now s <= t ->
  valid w s t c a = true -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof. intros H. given H. eapply exclusion; eauto using nearly; try reflexivity; intros L; discriminate L. Qed.

(* … as users see it: while a client uses a lock and does not detach it, no client uses another lock on the name. *)
Theorem promise_uses w p q1 q2 t1 t2 t3 c a d b x s : as_described w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) init (p ++ (t1, Use c a) :: q1 ++ (t2, Use d b) :: q2 ++ [(t3, Use c a)]) = Some s ->
  forallb (fun e => stays c a (snd e)) (q1 ++ q2) = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof. intros H. given H. eapply uses_exclude; eauto using nearly; try reflexivity; intros L; discriminate L. Qed.

(* … with nodes that forget, under the restart guard. Any node may lose everything, or come back with any older data, at any time and as often
   as it likes. Runs may have repairs at any time (promise 5): here and above. *)
Theorem promise_guarded_exclusion w tr s t c a d b x : as_described w -> all_guarded w ->
  run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]) init tr = Some s -> now s <= t ->
  valid w s t c a = true -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof. intros H G. given H. eapply exclusion; eauto using nearly; try reflexivity. intros _. split; [exact G|split; reflexivity]. Qed.

(* … and as users see it then. *)
Theorem promise_guarded_uses w p q1 q2 t1 t2 t3 c a d b x s : as_described w -> all_guarded w ->
  run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]) init (p ++ (t1, Use c a) :: q1 ++ (t2, Use d b) :: q2 ++ [(t3, Use c a)]) = Some s ->
  forallb (fun e => stays c a (snd e)) (q1 ++ q2) = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof. intros H G. given H. eapply uses_exclude; eauto using nearly; try reflexivity. intros _. split; [exact G|split; reflexivity]. Qed.

(* … Claims keep other clients out. A client had lock a, and detached it when its validity was to end at [h_until h] of its clock. Until then no other lock
   on a name of it is valid, whether the claim is resumed or not, and extended or not, unless its token ends: it is released, or given up. *)
Theorem promise_claims w p t1 q s1 s t c a h d b x : as_described w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) init p = Some s1 -> handle_of c a (handles s1) = Some h ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) s1 ((t1, Detach c a) :: q) = Some s -> now s <= t ->
  ~ In a (ended s) -> client_clock w c t <= h_until h -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b.
Proof. intros H. given H. eapply claims_exclude; eauto using nearly; try reflexivity; intros L; discriminate L. Qed.

(* … also under the guard. *)
Theorem promise_guarded_claims w p t1 q s1 s t c a h d b x : as_described w -> all_guarded w ->
  run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]) init p = Some s1 -> handle_of c a (handles s1) = Some h ->
  run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]) s1 ((t1, Detach c a) :: q) = Some s -> now s <= t ->
  ~ In a (ended s) -> client_clock w c t <= h_until h -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b.
Proof. intros H G. given H. eapply claims_exclude; eauto using nearly; try reflexivity. intros _. split; [exact G|split; reflexivity]. Qed.

(* … Releases do not endanger it: the end, the release or the undo of one token changes no key of another token, and no other lock's validity. *)
Theorem promise_releases w s t e s' tok b : right w -> gives_up e tok -> step w s (t, e) = Some s' -> b <> tok ->
  (forall n x z, key s n x = Some (b, z) -> key s' n x = Some (b, z)) /\ (forall u c, valid w s' u c b = valid w s u c b).
Proof. intros H. now apply releases_are_harmless. Qed.

(* … So a majority keeps a valid lock: at every instant at which it is valid, more than half of the nodes that its client is configured with have
   the key of each name, and that key has not expired. *)
Theorem promise_held w tr s t c a x : as_described w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) init tr = Some s -> now s <= t -> valid w s t c a = true -> In x (names w a) ->
  (length (members w c) < 2 * length (filter (keeps w s t a x) (members w c)))%nat.
Proof.
  intros H R Ht V X. given H. destruct (held w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce])) with (tr := tr) (s := s) (t := t) (c := c) (a := a) (x := x)
    as [P [L1 L2]]; auto using nearly; try reflexivity; [intros L; discriminate L|].
  eapply Nat.lt_le_trans; [exact L1|]. apply Nat.mul_le_mono_l, filter_more. intros n N. destruct (L2 n N) as [[e [K E]]|[K _]]; [|discriminate K].
  unfold keeps. rewrite K, Z.eqb_refl. now apply Z.ltb_lt.
Qed.

(* … Extensions that create keys do not endanger it either, if that is the lock's only mistake. *)
Theorem creating_extensions_exclude w tr s t c a d b x : right_but_creating w -> monotonic w -> within_drift w -> same_nodes w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]) init tr = Some s \/
  all_guarded w /\ run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]) init tr = Some s ->
  now s <= t -> valid w s t c a = true -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof.
  intros Hright Hmono Hdrift Hsame [R|[G R]]; eapply exclusion; eauto; try reflexivity; [intros L; discriminate L|].
  intros _. split; [exact G|split; reflexivity].
Qed.

(* PROMISE 3, FENCES. Whatever clocks show and whichever keys vanish, while nodes remember their counters. *)
Theorem promise_fences_differ w tr s a b Fa Fb : right w -> same_nodes w ->
  run w (assuming [NodesRemember; MarkerHonest; ExecutedOnce]) init tr = Some s ->
  In (a, Fa) (fences s) -> In (b, Fb) (fences s) -> a <> b -> share w a b -> Fa <> Fb.
Proof. intros H S. eapply fences_differ; eauto; reflexivity. Qed.

(* … larger than the fence of every lock that was acquired before any node counted for this one. *)
Theorem promise_fences_increase w tr q s s' a b Fa Fb : right w -> same_nodes w ->
  run w (assuming [NodesRemember; MarkerHonest; ExecutedOnce]) init tr = Some s -> run w (assuming [NodesRemember; MarkerHonest; ExecutedOnce]) s q = Some s' ->
  In (a, Fa) (fences s) -> (forall n v, ~ In (n, b, v) (numbers s)) -> In (b, Fb) (fences s') -> share w a b -> Fa < Fb.
Proof. intros H S. eapply fences_increase; eauto; reflexivity. Qed.

(* … A node that confirmed a fence before an extension began has granted the lock. So a client may take such a confirmation for a vote, while nodes
   remember. *)
Theorem promise_confirmations w tr s n a F : right w -> run w (assuming [NodesRemember; MarkerHonest]) init tr = Some s ->
  In (n, a, F) (confirms s) -> names w a <> [] -> granted s n a.
Proof. intros H. eapply confirmations_are_no_new_votes; eauto; reflexivity. Qed.

(* … While all that exclusion assumes holds: of all fences, the newest first, each is larger than all older ones of locks with a name in common. *)
Theorem promise_fences_in_order w tr s l1 b Fb l2 a Fa : as_described w ->
  run w (assuming [KeysKept; NodesRemember; MarkerHonest; ClaimOnce; ExecutedOnce]) init tr = Some s ->
  fences s = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b -> share w a b -> Fa < Fb.
Proof. intros H. given H. eapply fences_are_in_order with (spread := 0); eauto; try reflexivity; intros L; discriminate L. Qed.

(* … Also with nodes that forget their counters, under the guard: if no node's clock is set back, and any two differ at every instant by at
   most [spread] µs, which is the longest TTL less twice the clamp, less a millisecond. *)
Theorem promise_guarded_fences_in_order w spread tr s l1 b Fb l2 a Fa : as_described w -> all_guarded w ->
  not_set_back w -> clocks_agree w spread -> spread + 2 * clamp w + 1000 <= max_ttl w * 1000 ->
  run w (assuming [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet; AdmitNothing; ExecutedOnce; NumbersPaced]) init tr = Some s ->
  fences s = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b -> share w a b -> Fa < Fb.
Proof.
  intros H G F C S. given H. eapply fences_are_in_order with (spread := spread); eauto; try reflexivity.
  - intros _. split; [exact G|split; reflexivity].
  - intros _. split; [reflexivity|]. split; [reflexivity|]. split; [exact F|]. split; [exact C|exact S].
Qed.

(* PROMISE 5, NOTHING IS LEFT BEHIND. While nodes remember, a node that executed a release or an undo has no key with that token afterwards, if it
   executes no acquire or repair of the token after it: nothing else creates a key. A release under a minimum hold leaves the key, and is not meant. *)
Theorem promise_nothing_left w tr s n x tok e : right w ->
  run w (assuming [NodesRemember; MarkerHonest; InOrder]) init tr = Some s -> In (n, x, tok) (undone s) -> key s n x <> Some (tok, e).
Proof. intros H. eapply nothing_left_behind; eauto; reflexivity. Qed.

(* RULE 2, CLOCKS. The allowance of 1 % and 2 ms suffices, if in any interval a node's clock measures at most 100/99 of what a client's measures, and 1 ms. *)
Theorem promise_clocks w : (forall ttl, drift w ttl = allowance ttl) -> rates_differ_by_less_than_1_percent w -> within_drift w.
Proof. apply allowance_suffices. Qed.

(* The witnesses run under stricter assumptions than these, and so under these. *)
Theorem run_of_fewer w tol tol' tr : (forall a, tol a = true -> tol' a = true) -> forall s s', run w tol s tr = Some s' -> run w tol' s tr = Some s'.
Proof.
  intros H. induction tr as [|e tr IH]; simpl; intros s s' E; auto. unfold permitted in *.
  destruct (forallb tol _) eqn:P; [|discriminate]. assert (P' : forallb tol' (breaks w (at_time (fst e) s) (snd e)) = true).
  { apply forallb_forall. intros a A. apply H. rewrite forallb_forall in P. auto. }
  rewrite P'. destruct (step w s e); [auto|discriminate].
Qed.
