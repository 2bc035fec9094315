(* The library's drift allowance, and what it allows of clocks. *)
From Coq Require Import ZArith List Lia Bool.
From Redlock Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* 1 % of a TTL in ms, and 2 ms. The margin for late timers only ends a lock earlier. *)
Definition allowance ttl := ttl * 10000 + 2000000.

(* In any interval a node's clock measures at most 100/99 of what a client's clock measures, and 1 ms. So the rates of a client's and of a
   node's clock differ by less than 1 %, and in no interval do a node's steps forward add up to more than 1 ms. This suffices for every TTL.
   Longer times alone allow larger steps: see thirty_seconds_allow_300_ms in Assumptions.v. *)
Definition rates_differ_by_less_than_1_percent w := forall c n t0 t1, t0 <= t1 ->
  99 * (node_clock w n t1 - node_clock w n t0) <= 100 * (client_clock w c t1 - client_clock w c t0) + 99 * MS.

Theorem allowance_suffices w : (forall ttl, drift w ttl = allowance ttl) -> rates_differ_by_less_than_1_percent w -> within_drift w.
Proof.
  intros Hd H c n ttl t0 t1 _ Ht E. specialize (H c n t0 t1 Ht). rewrite Hd in E. unfold ms, allowance, MS in *.
  assert (D := Z.div_mod (node_clock w n t0) 1000000 ltac:(lia)). assert (D' := Z.mod_pos_bound (node_clock w n t0) 1000000 ltac:(lia)).
  assert (G := Z.div_mod (node_clock w n t1) 1000000 ltac:(lia)). assert (G' := Z.mod_pos_bound (node_clock w n t1) 1000000 ltac:(lia)).
  lia.
Qed.

(* A clock at a constant rate. *)
Record clock := Clock { off : Z; num : Z; den : Z }.
Definition read k t := off k + t * num k / den k.
Definition real := Clock 0 1 1.
Definition clocks (l : list clock) n := read (nth n l real).

(* A client's clock c runs, and a node's clock n is faster by less than 1 % of itself. *)
Definition runs k := (0 <? den k) && (0 <=? num k).
Definition fits c n := 99 * (num n * den c) <=? 100 * (num c * den n).

Lemma read_bounds k t0 t1 : runs k = true -> t0 <= t1 ->
  (t1 - t0) * num k - den k <= den k * (read k t1 - read k t0) <= (t1 - t0) * num k + den k /\ read k t0 <= read k t1.
Proof.
  unfold runs, read. rewrite andb_true_iff, Z.ltb_lt, Z.leb_le. intros [D L] H.
  assert (A := Z.div_mod (t0 * num k) (den k) ltac:(lia)). assert (B := Z.div_mod (t1 * num k) (den k) ltac:(lia)).
  assert (A' := Z.mod_pos_bound (t0 * num k) (den k) D). assert (B' := Z.mod_pos_bound (t1 * num k) (den k) D).
  assert (M : t0 * num k / den k <= t1 * num k / den k) by (apply Z.div_le_mono; nia).
  split; [|lia]. replace ((t1 - t0) * num k) with (t1 * num k - t0 * num k) by ring. nia.
Qed.

Definition all_fit (cs ns : list clock) :=
  forallb runs (real :: cs) && forallb runs (real :: ns) && forallb (fun c => forallb (fits c) (real :: ns)) (real :: cs).

Lemma nth_in l n : In (nth n l real) (real :: l).
Proof. destruct (nth_in_or_default n l real) as [H|H]; [now right|left; now rewrite H]. Qed.

Theorem constant_rates w cs ns : all_fit cs ns = true -> client_clock w = clocks cs -> node_clock w = clocks ns ->
  monotonic w /\ rates_differ_by_less_than_1_percent w.
Proof.
  unfold all_fit. rewrite !andb_true_iff, !forallb_forall. intros [[C N] F] Ec En.
  split; [intros c t0 t1 H; rewrite Ec; apply read_bounds; auto; apply C, nth_in|].
  intros c n t0 t1 H. rewrite Ec, En. unfold clocks.
  assert (F' := F _ (nth_in cs c)). rewrite forallb_forall in F'. specialize (F' _ (nth_in ns n)).
  set (k := nth c cs real) in *. set (j := nth n ns real) in *.
  assert (Rk : runs k = true) by (apply C, nth_in). assert (Rj : runs j = true) by (apply N, nth_in).
  destruct (read_bounds k t0 t1 Rk H) as [[K _] _]. destruct (read_bounds j t0 t1 Rj H) as [[_ J] _].
  unfold fits, runs in *. rewrite andb_true_iff, Z.ltb_lt, Z.leb_le in *. destruct Rk as [Dk Nk]. destruct Rj as [Dj Nj]. apply Z.leb_le in F'.
  set (x := read j t1 - read j t0) in *. set (y := read k t1 - read k t0) in *. set (d := t1 - t0) in *.
  assert (0 <= d) by (unfold d; lia).
  assert (den k * (den j * x) <= den k * (d * num j + den j)) by (apply Zmult_le_compat_l; lia).
  assert (den j * (d * num k - den k) <= den j * (den k * y)) by (apply Zmult_le_compat_l; lia).
  assert (d * (99 * (num j * den k)) <= d * (100 * (num k * den j))) by (apply Zmult_le_compat_l; lia).
  assert (P : 0 < den k * den j) by nia.
  apply (Zmult_le_reg_r _ _ (den k * den j)); [lia|]. unfold MS. nia.
Qed.
