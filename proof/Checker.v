(* An executable check of a trace: what nodes and clients did, with the nodes' answers. What it accepts has the promises.
   check/ has the program that reads traces. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model Exclusion Release Fences OrderedFences Clocks Worlds Promises Courses.
Import ListNotations.
Open Scope Z_scope.

(* ---- What a node answers ---- *)

(* Says n: it did what it was asked. n is the number that it counted, or how long it still keeps the keys, or 0.
   Refuses: a key is missing, or another token has it. Unfit: the marker differs, so it did nothing. Uncounted: it did it, and the marker differs. *)
Inductive reply := Silent | Says (n : Z) | Refuses | Unfit | Uncounted.

Section Replies.
Variable w : world.
Definition all_mine s n edge tok := forallb (mine w s n edge tok) (names w tok).
Definition reply_to s n edge R hint (e : kind) := match e with
  | Acquiring => if negb (may_create w (r_client R) s n) then Unfit
      else if forallb (free w s n edge) (names w (r_token R)) then Says match hint with Some h => number w s n (r_token R) h | None => 0 end else Refuses
  | Extending => if all_mine s n edge (r_token R) then if may_vote w (r_client R) s n then Says 0 else Uncounted else Refuses
  | Asking => if negb (may_vote w (r_client R) s n) then Unfit else if all_mine s n edge (r_token R) then Says (left_all w s n (r_token R)) else Refuses
  end.
Definition reply_of s e := match e with
  | Exec n r hint edge => match find_round r (rounds s) with Some R => reply_to s n edge R hint (r_kind R) | None => Silent end
  | Confirm n r _ edge => match find_round r (rounds s) with
      | Some R => if all_mine s n edge (r_token R) then if may_create w (r_client R) s n then Says 0 else Uncounted else Refuses
      | None => Silent end
  | Repair n r edge => match find_round r (rounds s) with
      | Some R => if negb (guarded w (r_client R) && fit s n) then Unfit
          else if forallb (fun x => mine w s n edge (r_token R) x || free w s n edge x) (names w (r_token R)) then Says 0 else Refuses
      | None => Silent end
  | Verify n => match mark s n, mark (verify w n s) n with          (* Says 0: it is fit. Refuses: a quarantine begins. *)
      | _, Fit => Says 0 | Quarantined a, Quarantined b => if a =? b then Uncounted else Refuses | _, _ => Refuses end
  | _ => Silent
  end.

(* PTTL may be a millisecond less than the model's, because servers count it from different parts of a millisecond. *)
Definition fits_reply (asked : bool) seen said := match seen, said with
  | Silent, _ | Refuses, Refuses | Unfit, Unfit | Uncounted, Uncounted => true
  | Says a, Says b => if asked then (a <=? b) && (b <=? a + 1) else a =? b
  | _, _ => false
  end.
Definition asks s e := match e with Exec _ r _ _ => match find_round r (rounds s) with Some R => match r_kind R with Asking => true | _ => false end | None => false end | _ => false end.
End Replies.

(* ---- The check ---- *)

(* t_drift: see allows. t_names: of each token. The clocks are those of clients and of nodes. An event has the answer that was seen, or Silent. *)
Record trace := Trace {
  t_nodes : nat; t_guard : bool; t_longest : Z; t_drift : Z * Z; t_names : list (Z * list nat); t_clients : list course; t_clocks : list course;
  t_events : list (Z * event * reply) }.

Definition names_of (l : list (Z * list nat)) tok := match find (fun p => fst p =? tok) l with Some (_, x) => x | None => [] end.
Definition clamp_of longest := Z.min 1000000 (longest * 250).
Definition world_of T := World (fun _ => seq 0 (t_nodes T)) (fun _ => t_guard T) (names_of (t_names T)) (t_longest T) (fun _ => true) (allows (t_drift T))
  (clamp_of (t_longest T)) (courses (t_clocks T)) (courses (t_clients T)) correct.

Inductive promise := Excludes | FencesInOrder | FencesDiffer | NothingLeft.

(* What the theorems of Promises.v assume. *)
Definition assumed p (guard : bool) := match p, guard with
  | Excludes, false => [KeysKept; NodesRemember; MarkerHonest; ClaimOnce]
  | Excludes, true => [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet]
  | FencesInOrder, false => [KeysKept; NodesRemember; MarkerHonest; ClaimOnce; ExecutedOnce]
  | FencesInOrder, true => [KeysKept; MarkerHonest; ClaimOnce; TtlBounded; AdmitQuiet; AdmitNothing; ExecutedOnce; NumbersPaced]
  | FencesDiffer, _ => [NodesRemember; MarkerHonest; ExecutedOnce]
  | NothingLeft, _ => [NodesRemember; MarkerHonest; InOrder]
  end.
Definition spread_of longest := longest * 1000 - 2 * clamp_of longest - 1000.
Definition clocks_suffice p T := match p, t_guard T with
  | Excludes, _ | FencesInOrder, false => all_good (t_drift T) (t_clients T) (t_clocks T)
  | FencesInOrder, true => all_good (t_drift T) (t_clients T) (t_clocks T) && agree (spread_of (t_longest T)) (t_clocks T)
  | _, _ => true
  end.

Inductive reason := TimeGoesBack | BreaksAssumption | OtherAnswer (said : reply) | Impossible.
Definition judge w tol s (e : Z * event * reply) : state + reason :=
  let '(t, ev, seen) := e in
  if t <? now s then inr TimeGoesBack else
  let s := at_time t s in
  if negb (permitted w tol s ev) then inr BreaksAssumption
  else if negb (fits_reply (asks s ev) seen (reply_of w s ev)) then inr (OtherAnswer (reply_of w s ev))
  else match happen w s ev with Some s' => inl s' | None => inr Impossible end.
Fixpoint passes w tol s l := match l with
  | [] => true
  | e :: l => match judge w tol s e with inl s' => passes w tol s' l | inr _ => false end
  end.
Definition check p T := clocks_suffice p T && passes (world_of T) (assuming (assumed p (t_guard T))) init (t_events T).

(* ---- What an accepted trace has ---- *)

Lemma passes_run w tol l : forall s, passes w tol s l = true -> exists s', run w tol s (map fst l) = Some s'.
Proof.
  induction l as [|[[t e] r] l IH]; simpl; intros s P; [eauto|]. unfold judge in P. destruct (t <? now s); [discriminate|].
  destruct (permitted w tol (at_time t s) e); [|discriminate]. simpl in P. destruct (fits_reply _ _ _); [|discriminate]. simpl in P.
  destruct (happen w (at_time t s) e); [auto|discriminate].
Qed.

(* Each answer that was seen is the model's. *)
Theorem accepted_answers w tol p t e r q : forall s, passes w tol s (p ++ (t, e, r) :: q) = true ->
  exists s', run w tol s (map fst p) = Some s' /\ fits_reply (asks (at_time t s') e) r (reply_of w (at_time t s') e) = true.
Proof.
  induction p as [|[[u f] a] p IH]; simpl; intros s P; unfold judge in P.
  - exists s. split; auto. destruct (t <? now s); [discriminate|]. destruct (negb (permitted _ _ _ _)); [discriminate|].
    destruct (fits_reply _ _ _); [reflexivity|discriminate].
  - destruct (u <? now s) eqn:U; [discriminate|]. destruct (permitted w tol (at_time u s) f); [|discriminate]. simpl in P.
    destruct (fits_reply _ _ _); [|discriminate]. simpl in P. destruct (happen w (at_time u s) f) as [s1|]; [auto|discriminate].
Qed.

Section Accepted.
Variable T : trace.
Notation w := (world_of T).
Notation guarded := (t_guard T).
Notation before p := (map fst p).
Notation reached promise := (run w (assuming (assumed promise guarded)) init).

Lemma check_spec p : check p T = true -> clocks_suffice p T = true /\ passes w (assuming (assumed p guarded)) init (t_events T) = true.
Proof. apply andb_prop. Qed.

Lemma prefix pr p q : check pr T = true -> t_events T = p ++ q -> exists s, reached pr (before p) = Some s.
Proof.
  intros C E. apply check_spec in C as [_ C]. apply passes_run in C as [s' R]. rewrite E, map_app, run_app in R.
  destruct (reached pr (before p)) as [s|]; [eauto|discriminate].
Qed.

Lemma described : all_good (t_drift T) (t_clients T) (t_clocks T) = true -> as_described w.
Proof.
  intros G. destruct (good_clocks w _ _ _ G eq_refl eq_refl) as [M D]; [reflexivity|]. split; [intros m; reflexivity|]. split; [exact M|].
  split; [exact D|intros c d; reflexivity].
Qed.

(* EXCLUSION. After each event, and at any instant before the next one. *)
Theorem accepted_traces_exclude p q : check Excludes T = true -> t_events T = p ++ q -> exists s, reached Excludes (before p) = Some s /\
  forall t c a d b x, now s <= t -> valid w s t c a = true -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof.
  intros C E. destruct (prefix _ p q C E) as [s R]. exists s. split; [exact R|]. apply check_spec in C as [C _]. unfold clocks_suffice in C.
  destruct guarded eqn:G; intros t c a d b x Ht Va Vb Xa Xb; apply described in C.
  - eapply (promise_guarded_exclusion w); eauto. intros e. exact G.
  - eapply (promise_exclusion w); eauto.
Qed.

(* … Between two uses of a lock that is not detached in between, no client uses another lock on the name. *)
Theorem accepted_traces_use_in_turn p q1 q2 q t1 t2 t3 r1 r2 r3 c a d b x : check Excludes T = true ->
  t_events T = (p ++ (t1, Use c a, r1) :: q1 ++ (t2, Use d b, r2) :: q2 ++ [(t3, Use c a, r3)]) ++ q ->
  forallb (fun e => stays c a (snd e)) (before (q1 ++ q2)) = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof.
  intros C E St Xa Xb. destruct (prefix _ _ q C E) as [s R]. apply check_spec in C as [C _].
  assert (D : as_described w) by (apply described; unfold clocks_suffice in C; now destruct guarded).
  rewrite !map_app in R. cbn [map fst] in R. rewrite !map_app in R. cbn [map fst] in R. rewrite map_app in R. cbn [map fst] in R. rewrite map_app in St.
  destruct guarded eqn:G.
  - eapply (promise_guarded_uses w) with (q1 := before q1) (q2 := before q2); eauto. intros e. exact G.
  - eapply (promise_uses w) with (q1 := before q1) (q2 := before q2); eauto.
Qed.

(* FENCES. The newest first: each is larger than all older ones of locks with a name in common. *)
Theorem accepted_traces_have_fences_in_order s l1 b Fb l2 a Fa : check FencesInOrder T = true -> reached FencesInOrder (before (t_events T)) = Some s ->
  fences s = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b -> share w a b -> Fa < Fb.
Proof.
  intros C R. apply check_spec in C as [C _]. unfold clocks_suffice in C. destruct guarded eqn:G.
  - apply andb_prop in C as [C A]. destruct (clocks_that_agree w _ _ A eq_refl) as [F S].
    apply (promise_guarded_fences_in_order w (spread_of (t_longest T)) (before (t_events T)) s l1 b Fb l2 a Fa (described C)); auto.
    + intros e. exact G.
    + unfold spread_of. cbn [clamp max_ttl world_of]. lia.
  - apply (promise_fences_in_order w (before (t_events T)) s l1 b Fb l2 a Fa (described C) R).
Qed.

(* Whatever clocks show and whichever keys vanish: no two fences of locks with a name in common are equal. *)
Theorem accepted_traces_have_different_fences s a b Fa Fb : check FencesDiffer T = true -> reached FencesDiffer (before (t_events T)) = Some s ->
  In (a, Fa) (fences s) -> In (b, Fb) (fences s) -> a <> b -> share w a b -> Fa <> Fb.
Proof. intros _ R. eapply promise_fences_differ; eauto; [intros m; reflexivity|intros c d; reflexivity]. Qed.

(* … and each is larger than that of every lock that was acquired before any node counted for this one. *)
Theorem accepted_traces_have_increasing_fences p q s s' a b Fa Fb : check FencesDiffer T = true -> t_events T = p ++ q ->
  reached FencesDiffer (before p) = Some s -> run w (assuming (assumed FencesDiffer guarded)) s (before q) = Some s' ->
  In (a, Fa) (fences s) -> (forall n v, ~ In (n, b, v) (numbers s)) -> In (b, Fb) (fences s') -> share w a b -> Fa < Fb.
Proof. intros _ _ R Q. eapply promise_fences_increase; eauto; [intros m; reflexivity|intros c d; reflexivity]. Qed.

(* NOTHING LEFT. After each event: a node that executed a release or an undo has no key with that token. *)
Theorem accepted_traces_leave_nothing p q : check NothingLeft T = true -> t_events T = p ++ q -> exists s, reached NothingLeft (before p) = Some s /\
  forall n x tok e, In (n, x, tok) (undone s) -> key s n x <> Some (tok, e).
Proof.
  intros C E. destruct (prefix _ p q C E) as [s R]. exists s. split; [exact R|]. intros n x tok e. eapply promise_nothing_left; eauto. intros m. reflexivity.
Qed.
End Accepted.

(* ---- Traces that Coq evaluates ---- *)

From Redlock Require Import Witnesses Mistakes.
Definition at_rate k := Course (off k) (den k) [Part 0 0 (num k)].
Definition unseen (l : list (Z * event)) := map (fun e => (e, Silent)) l.
Definition default := (10000, 2000000).
Definition of_w1 l := Trace 3 false 1000 default (map (fun t => (t, two_names t)) [100; 200; 400; 500]) (map at_rate cs) (map at_rate ns ++ [exact]) l.
Definition of_guard cs ns l := Trace 3 true 1000 default (map (fun t => (t, [0%nat])) [100; 200; 300; 900]) cs ns l.

(* A trace is accepted, and rejected if a validity is a nanosecond too long, if a quorum is decided without its second vote, or if a node
   says that it granted and did not. *)
Example accepted : check Excludes (of_w1 (unseen (first_half ++ second_half))) = true. Proof. vm_compute. reflexivity. Qed.
Example too_long : check Excludes (of_w1 (unseen (firstn 6 first_half ++ [(1006 * MS, Decide 1 1000 (c0 (1000 * MS) + 988 * MS + 1) 0)]))) = false.
Proof. vm_compute. reflexivity. Qed.
Example a_vote_is_missing : check Excludes (of_w1 (unseen (firstn 2 first_half ++ skipn 3 first_half))) = false. Proof. vm_compute. reflexivity. Qed.
Example a_grant_is_forged : check Excludes (of_w1 (unseen (firstn 5 first_half) ++ [(1005 * MS, exec 1 2, Refuses)])) = true
  /\ check Excludes (of_w1 (unseen (firstn 5 first_half) ++ [(1005 * MS, exec 1 2, Says 0)])) = false. Proof. vm_compute. split; reflexivity. Qed.

(* Nodes forget under the guard, and their fences are in order, while a client is suspended and a node's clock changes its rate. *)
Example accepted_under_the_guard : check Excludes (of_guard [] [] (unseen guard_run)) = true. Proof. vm_compute. reflexivity. Qed.
Definition suspended := Course 0 1 [Part (1550 * MS) (10 * MS) 1].
Definition uneven := [exact; exact; Course (400 * MS) 1000 [Part (2 * MS) 0 1004; Part (1700 * MS) 0 998; Part (2804 * MS) 0 1000]].
Example accepted_fences : check FencesInOrder (of_guard [suspended] uneven (unseen guarded_fence_run)) = true
  /\ check FencesInOrder (of_guard [suspended] (Course 0 1 [Part (2 * MS) (-1) 1] :: tl uneven) (unseen guarded_fence_run)) = false.
Proof. vm_compute. split; reflexivity. Qed.

(* Clocks that are set back by an hour break no exclusion, and those that are set forward by two milliseconds may, unless the allowance is larger. *)
Definition set_by d := [Course 0 1 [Part (1 * MS) d 1]].
Example set_forward : check Excludes (of_guard [] (set_by (-3600000 * MS)) []) = true /\ check Excludes (of_guard [] (set_by (2 * MS)) []) = false
  /\ all_good (10000, 4000000) [exact] (set_by (2 * MS)) = true.
Proof. vm_compute. repeat split. Qed.

(* All nodes' clocks are set back by an hour, at 1100 ms. The keys of 100 expire at 1001 ms. If the nodes dropped them before, another client
   acquires the name. If not, the keys are there again, and the nodes refuse. A key that is gone before 1001 ms breaks an assumption. *)
Definition hour_back l := Trace 3 false 1000 default [(100, [0%nat]); (200, [0%nat])] [] [Course 0 1 [Part (1100 * MS) (-3600000 * MS) 1]] l.
Definition held_once := unseen (first_lock ++ [(900 * MS, Use 0 100)]).
Definition dropped t := unseen [(t * MS, Vanish 0 0); (t * MS, Vanish 1 0)].
Definition then_another a := [((1200 * MS, Acquire 1 2 200 1000), Silent); ((1201 * MS, exec 0 2), a); ((1201 * MS, exec 1 2), a)].
Definition has_it := unseen [(1202 * MS, Decide 2 1000 (2188 * MS) 0); (1203 * MS, Use 1 200)].
Example set_back : check Excludes (hour_back (held_once ++ dropped 1050 ++ then_another (Says 0) ++ has_it)) = true
  /\ check Excludes (hour_back (held_once ++ then_another (Says 0))) = false /\ check Excludes (hour_back (held_once ++ then_another Refuses)) = true
  /\ check Excludes (hour_back (held_once ++ dropped 1000)) = false.
Proof. vm_compute. repeat split. Qed.
