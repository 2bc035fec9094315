(* An executable check of a trace, and what follows for a trace that it accepts. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model Exclusion Release Fences OrderedFences Clocks Worlds Witnesses.
Import ListNotations.
Open Scope Z_scope.

(* The world of a trace: N nodes, clocks at constant rates, and the lock as it is. *)
Definition trace_world N guard nm longest cs ns :=
  World (fun _ => seq 0 N) (fun _ => guard) nm longest allowance (Z.min 1000000 (longest * 250)) (clocks ns) (clocks cs) correct.
Definition may_break (guard : bool) := if guard then all_but [NodesRemember] else all_hold.

Definition check N guard nm longest cs ns tr :=
  all_fit cs ns && match run (trace_world N guard nm longest cs ns) (may_break guard) init tr with Some _ => true | None => false end.

Section Accepted.
Variables (N : nat) (guard : bool) (nm : Z -> list nat) (longest : Z) (cs ns : list clock) (tr : list (Z * event)).
Hypothesis Haccepted : check N guard nm longest cs ns tr = true.
Notation w := (trace_world N guard nm longest cs ns).
Notation tolerated := (may_break guard).

Lemma fits_clocks : monotonic w /\ within_drift w.
Proof.
  unfold check in Haccepted. apply andb_prop in Haccepted as [F _]. destruct (constant_rates w cs ns F eq_refl eq_refl) as [M D].
  split; [exact M|]. apply allowance_suffices; [intros k; reflexivity|exact D].
Qed.

Lemma prefix p q : tr = p ++ q -> exists s, run w tolerated init p = Some s.
Proof.
  intros ->. unfold check in Haccepted. apply andb_prop in Haccepted as [_ R]. rewrite run_app in R.
  destruct (run w tolerated init p) as [s|]; [eauto|discriminate].
Qed.

(* After each event of an accepted trace, and at any instant before the next one, exclusion holds. *)
Theorem accepted_traces_exclude p q : tr = p ++ q -> exists s, run w tolerated init p = Some s /\
  forall t c a d b x, now s <= t -> valid w s t c a = true -> valid w s t d b = true -> In x (nm a) -> In x (nm b) -> a = b /\ c = d.
Proof.
  intros E. destruct (prefix p q E) as [s R]. exists s. split; [exact R|]. destruct fits_clocks as [M D].
  intros t c a d b x Ht Va Vb Xa Xb. apply (exclusion w tolerated) with (tr := p) (s := s) (t := t) (x := x); auto;
    try (intros m; reflexivity); try (intros m k; reflexivity); try (destruct guard; reflexivity).
  intros L. destruct guard; [repeat split; auto|discriminate L].
Qed.
End Accepted.

(* Without the guard, fences are in order, and nothing is left behind. *)
Theorem accepted_traces_have_fences_in_order N nm longest cs ns tr s l1 b Fb l2 a Fa : check N false nm longest cs ns tr = true ->
  run (trace_world N false nm longest cs ns) all_hold init tr = Some s -> fences s = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b ->
  (exists x, In x (nm a) /\ In x (nm b)) -> Fa < Fb.
Proof.
  intros A R E I N0 S. destruct (fits_clocks _ _ _ _ _ _ _ A) as [M D].
  apply (fences_are_in_order (trace_world N false nm longest cs ns) all_hold) with (spread := 0) (tr := tr) (s := s) (l1 := l1) (l2 := l2) (a := a) (b := b); auto;
    try (intros m; reflexivity); try (intros m k; reflexivity); intros L; discriminate L.
Qed.

(* A trace is accepted, and rejected if a validity is a nanosecond too long, or if a quorum is decided without its second vote. *)
Example accepted : check 3 false two_names 1000 cs ns (first_half ++ second_half) = true. Proof. vm_compute. reflexivity. Qed.
Example too_long : check 3 false two_names 1000 cs ns (firstn 6 first_half ++ [(1006 * MS, Decide 1 1000 (c0 (1000 * MS) + 988 * MS + 1) 0)]) = false.
Proof. vm_compute. reflexivity. Qed.
Example a_vote_is_missing : check 3 false two_names 1000 cs ns (firstn 2 first_half ++ skipn 3 first_half) = false. Proof. vm_compute. reflexivity. Qed.
