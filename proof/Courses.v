(* Clocks that change their rate and are set, as a trace has them, and what the allowance allows of them. *)
From Coq Require Import ZArith List Lia Bool.
From Redlock Require Import Model Clocks OrderedFences.
Import ListNotations.
Open Scope Z_scope.

(* From instant p_from on, a clock is ahead by p_set more, and runs at the rate p_num / c_den. Before instant 0 it runs as real time does. *)
Record part := Part { p_from : Z; p_set : Z; p_num : Z }.
Record course := Course { c_off : Z; c_den : Z; c_parts : list part }.

Fixpoint passed den num from l t := match l with
  | [] => (t - from) * num
  | p :: l => if t <? p_from p then (t - from) * num
              else (p_from p - from) * num + p_set p * den + passed den (p_num p) (p_from p) l t
  end.
Definition shows k t := c_off k + passed (c_den k) (c_den k) 0 (c_parts k) t / c_den k.

(* The clock of number n. One that a list does not have is as the first one. *)
Definition exact := Course 0 1 [].
Definition courses l n := shows (nth n l (hd exact l)).
Definition those (l : list course) := match l with [] => [exact] | _ => l end.

Fixpoint ordered from l := match l with [] => true | p :: l => (from <=? p_from p) && ordered (p_from p) l end.
Definition slowest k := fold_right (fun p v => Z.min (p_num p) v) (c_den k) (c_parts k).
Definition fastest k := fold_right (fun p v => Z.max (p_num p) v) (c_den k) (c_parts k).
Fixpoint forward l := match l with [] => 0 | p :: l => Z.max 0 (p_set p) + forward l end.
Fixpoint back l := match l with [] => 0 | p :: l => Z.min 0 (p_set p) + back l end.

(* The allowance for a TTL in ms, in ns: so many millionths of it, and so many ns. *)
Definition allows (a : Z * Z) ttl := ttl * fst a + snd a.

(* A clock stands or runs, and not backwards. A client's clock is never set back. A node's clock is set forward by less, in all, than what the
   allowance has above the difference of rates, less a millisecond, in which a server counts. *)
Definition sane k := (0 <? c_den k) && ordered 0 (c_parts k) && (0 <=? slowest k).
Definition of_client k := sane k && (0 <=? back (c_parts k)).
Definition of_node (a : Z * Z) k := sane k && ((1000000 - fst a) * (forward (c_parts k) + 1 + MS) + 1000000 <=? 1000000 * snd a).
Definition keeps_pace (a : Z * Z) c n := (1000000 - fst a) * (fastest n * c_den c) <=? 1000000 * (slowest c * c_den n).
Definition all_good a (cs ns : list course) := (fst a <? 1000000) &&
  forallb of_client (those cs) && forallb (of_node a) (those ns) && forallb (fun c => forallb (keeps_pace a c) (those ns)) (those cs).

Lemma nth_those l n : In (nth n l (hd exact l)) (those l).
Proof.
  destruct l as [|k l]; [destruct n; now left|]. unfold those, hd. destruct (nth_in_or_default n (k :: l) k) as [H|H]; [exact H|]. rewrite H. now left.
Qed.

Lemma forward_positive l : 0 <= forward l. Proof. induction l; simpl; lia. Qed.
Lemma back_negative l : back l <= 0. Proof. induction l; simpl; lia. Qed.

Definition within lo hi l := Forall (fun p => lo <= p_num p <= hi) l.
Lemma times lo num hi d : lo <= num <= hi -> 0 <= d -> lo * d <= d * num <= hi * d. Proof. nia. Qed.

Lemma passed_since den lo hi l : 0 < den -> forall num from u, lo <= num <= hi -> within lo hi l -> ordered from l = true -> from <= u ->
  lo * (u - from) + den * back l <= passed den num from l u <= hi * (u - from) + den * forward l.
Proof.
  intros D. induction l as [|p l IH]; cbn [passed back forward ordered]; intros num from u N W O H.
  - assert (T := times lo num hi (u - from) N ltac:(lia)). lia.
  - apply andb_prop in O as [O1 O2]. apply Z.leb_le in O1. inversion W as [|? ? W1 W2]; subst.
    assert (A := forward_positive l). assert (B := back_negative l).
    destruct (u <? p_from p) eqn:E; [apply Z.ltb_lt in E|apply Z.ltb_ge in E].
    + assert (T := times lo num hi (u - from) N ltac:(lia)).
      assert (den * (Z.min 0 (p_set p) + back l) <= 0) by (apply Z.mul_nonneg_nonpos; lia).
      assert (0 <= den * (Z.max 0 (p_set p) + forward l)) by (apply Z.mul_nonneg_nonneg; lia). lia.
    + assert (T := times lo num hi (p_from p - from) N ltac:(lia)). destruct (IH (p_num p) (p_from p) u W1 W2 O2 E) as [I1 I2].
      assert (den * Z.min 0 (p_set p) <= p_set p * den <= den * Z.max 0 (p_set p)) by (split; nia).
      split; [transitivity (lo * (p_from p - from) + den * Z.min 0 (p_set p) + (lo * (u - p_from p) + den * back l)); [apply Z.eq_le_incl; ring|lia]
             |transitivity (hi * (p_from p - from) + den * Z.max 0 (p_set p) + (hi * (u - p_from p) + den * forward l)); [lia|apply Z.eq_le_incl; ring]].
Qed.

Lemma passed_between den lo hi l : 0 < den -> forall num from t u, lo <= num <= hi -> within lo hi l -> ordered from l = true -> t <= u ->
  lo * (u - t) + den * back l <= passed den num from l u - passed den num from l t <= hi * (u - t) + den * forward l.
Proof.
  intros D. induction l as [|p l IH]; cbn [passed back forward ordered]; intros num from t u N W O H.
  - assert (T := times lo num hi (u - t) N ltac:(lia)). lia.
  - apply andb_prop in O as [O1 O2]. apply Z.leb_le in O1. inversion W as [|? ? W1 W2]; subst.
    assert (A := forward_positive l). assert (B := back_negative l).
    assert (X : den * (Z.min 0 (p_set p) + back l) <= den * back l) by (apply Zmult_le_compat_l; lia).
    assert (Y : den * forward l <= den * (Z.max 0 (p_set p) + forward l)) by (apply Zmult_le_compat_l; lia).
    assert (den * back l <= 0) by (apply Z.mul_nonneg_nonpos; lia). assert (0 <= den * forward l) by (apply Z.mul_nonneg_nonneg; lia).
    destruct (u <? p_from p) eqn:E; [apply Z.ltb_lt in E|apply Z.ltb_ge in E].
    + replace (t <? p_from p) with true by (symmetry; apply Z.ltb_lt; lia). assert (T := times lo num hi (u - t) N ltac:(lia)). lia.
    + destruct (t <? p_from p) eqn:F; [apply Z.ltb_lt in F|apply Z.ltb_ge in F].
      * destruct (passed_since den lo hi l D (p_num p) (p_from p) u W1 W2 O2 E) as [I1 I2].
        assert (T := times lo num hi (p_from p - t) N ltac:(lia)).
        assert (den * Z.min 0 (p_set p) <= p_set p * den <= den * Z.max 0 (p_set p)) by (split; nia).
        replace (lo * (u - t) + den * (Z.min 0 (p_set p) + back l)) with (lo * (p_from p - t) + den * Z.min 0 (p_set p) + (lo * (u - p_from p) + den * back l)) by ring.
        replace (hi * (u - t) + den * (Z.max 0 (p_set p) + forward l)) with (hi * (p_from p - t) + den * Z.max 0 (p_set p) + (hi * (u - p_from p) + den * forward l)) by ring.
        lia.
      * destruct (IH (p_num p) (p_from p) t u W1 W2 O2 H) as [I1 I2]. lia.
Qed.

Lemma within_all k : slowest k <= c_den k <= fastest k /\ within (slowest k) (fastest k) (c_parts k).
Proof.
  unfold slowest, fastest. set (d := c_den k). induction (c_parts k) as [|p l [I1 I2]]; simpl; [split; [lia|constructor]|].
  split; [lia|]. constructor; [lia|]. eapply Forall_impl; [|exact I2]. intros q Q. simpl in Q. lia.
Qed.

Lemma sane_spec k : sane k = true -> 0 < c_den k /\ ordered 0 (c_parts k) = true /\ 0 <= slowest k.
Proof. unfold sane. rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le. tauto. Qed.

Lemma shows_between k t u : sane k = true -> t <= u ->
  slowest k * (u - t) + c_den k * (back (c_parts k) - 1) <= c_den k * (shows k u - shows k t) <= fastest k * (u - t) + c_den k * (forward (c_parts k) + 1).
Proof.
  intros S H. apply sane_spec in S as [D [O L]]. destruct (within_all k) as [W1 W2].
  destruct (passed_between (c_den k) _ _ _ D (c_den k) 0 t u W1 W2 O H) as [A B]. unfold shows.
  set (x := passed _ _ _ _ u) in *. set (y := passed _ _ _ _ t) in *. set (d := c_den k) in *.
  assert (X := Z.div_mod x d ltac:(lia)). assert (X' := Z.mod_pos_bound x d D).
  assert (Y := Z.div_mod y d ltac:(lia)). assert (Y' := Z.mod_pos_bound y d D). split; nia.
Qed.

Lemma shows_forward k t u : sane k = true -> 0 <= back (c_parts k) -> t <= u -> shows k t <= shows k u.
Proof.
  intros S B H. apply sane_spec in S as [D [O L]]. destruct (within_all k) as [W1 W2].
  destruct (passed_between (c_den k) _ _ _ D (c_den k) 0 t u W1 W2 O H) as [A _]. unfold shows.
  assert (0 <= c_den k * back (c_parts k)) by (apply Z.mul_nonneg_nonneg; lia). assert (0 <= slowest k * (u - t)) by (apply Z.mul_nonneg_nonneg; lia).
  assert (passed (c_den k) (c_den k) 0 (c_parts k) t / c_den k <= passed (c_den k) (c_den k) 0 (c_parts k) u / c_den k) by (apply Z.div_le_mono; lia). lia.
Qed.

Theorem good_clocks w a cs ns : all_good a cs ns = true -> client_clock w = courses cs -> node_clock w = courses ns ->
  (forall ttl, drift w ttl = allows a ttl) -> monotonic w /\ within_drift w.
Proof.
  unfold all_good. rewrite !andb_true_iff, !forallb_forall, Z.ltb_lt. intros [[[P C] N] F] Ec En Ed.
  assert (Mono : monotonic w).
  { intros c t0 t1 H. rewrite Ec. assert (K := C _ (nth_those cs c)). unfold of_client in K. apply andb_prop in K as [K1 K2]. apply Z.leb_le in K2.
    now apply shows_forward. }
  split; [exact Mono|]. intros c n ttl t u _ H E. rewrite Ed in E. rewrite Ec in E. unfold ms. rewrite En. unfold courses, allows in *.
  assert (K := C _ (nth_those cs c)). assert (J := N _ (nth_those ns n)).
  assert (F' := F _ (nth_those cs c)). rewrite forallb_forall in F'. specialize (F' _ (nth_those ns n)).
  set (k := nth c cs _) in *. set (j := nth n ns _) in *. unfold of_client, of_node, keeps_pace in *.
  apply andb_prop in K as [K1 K2]. apply andb_prop in J as [J1 J2]. rewrite Z.leb_le in *.
  destruct (shows_between k t u K1 H) as [A _]. destruct (shows_between j t u J1 H) as [_ B].
  apply sane_spec in K1 as [Dk _]. apply sane_spec in J1 as [Dj _].
  destruct a as [ppm floor]. cbn [fst snd] in *. set (q := 1000000 - ppm) in *. assert (Q : 0 < q) by (unfold q; lia).
  set (x := shows j u - shows j t) in *. set (y := shows k u - shows k t) in *. set (d := u - t) in *. assert (0 <= d) by (unfold d; lia).
  set (f := forward (c_parts j)) in *.
  assert (P1 : q * c_den k * (c_den j * x) <= q * c_den k * (fastest j * d + c_den j * (f + 1))) by (apply Zmult_le_compat_l; [lia|nia]).
  assert (P2 : c_den j * (slowest k * d - c_den k) <= c_den j * (c_den k * y)) by (apply Zmult_le_compat_l; [nia|lia]).
  assert (P3 : d * (q * (fastest j * c_den k)) <= d * (1000000 * (slowest k * c_den j))) by (apply Zmult_le_compat_l; lia).
  assert (PP : 0 < c_den k * c_den j) by nia.
  assert (X : q * x <= 1000000 * y + 1000000 + q * (f + 1)).
  { apply (Zmult_le_reg_r _ _ (c_den k * c_den j)); [lia|]. nia. }
  assert (Y : y <= ttl * q - floor) by (unfold q, MS in *; lia).
  assert (Z' : q * x <= q * (ttl * MS - MS)) by (unfold MS in *; lia).
  assert (W : x <= ttl * MS - MS) by (apply (Z.mul_le_mono_pos_l _ _ q); [lia|exact Z']). unfold MS in *.
  assert (D := Z.div_mod (shows j t) 1000000 ltac:(lia)). assert (D' := Z.mod_pos_bound (shows j t) 1000000 ltac:(lia)).
  assert (G := Z.div_mod (shows j u) 1000000 ltac:(lia)). assert (G' := Z.mod_pos_bound (shows j u) 1000000 ltac:(lia)). lia.
Qed.

(* ---- How far a clock gets from real time, if it runs as real time does after its last part ---- *)

Fixpoint ahead den num from l := match l with
  | [] => 0
  | p :: l => Z.max 0 ((p_from p - from) * (num - den)) + Z.max 0 (p_set p * den) + ahead den (p_num p) (p_from p) l
  end.
Fixpoint behind den num from l := match l with
  | [] => 0
  | p :: l => Z.min 0 ((p_from p - from) * (num - den)) + Z.min 0 (p_set p * den) + behind den (p_num p) (p_from p) l
  end.
Definition settles k := p_num (last (c_parts k) (Part 0 0 (c_den k))) =? c_den k.
Definition most k := c_off k + ahead (c_den k) (c_den k) 0 (c_parts k) / c_den k.
Definition least k := c_off k + behind (c_den k) (c_den k) 0 (c_parts k) / c_den k.

Lemma ahead_positive den l : forall num from, 0 <= ahead den num from l. Proof. induction l as [|p l IH]; simpl; intros; [lia|]. specialize (IH (p_num p) (p_from p)). lia. Qed.
Lemma behind_negative den l : forall num from, behind den num from l <= 0. Proof. induction l as [|p l IH]; simpl; intros; [lia|]. specialize (IH (p_num p) (p_from p)). lia. Qed.

Lemma passed_near den l : forall num from t, ordered from l = true -> p_num (last l (Part 0 0 num)) = den -> from <= t ->
  behind den num from l <= passed den num from l t - den * (t - from) <= ahead den num from l.
Proof.
  induction l as [|p l IH]; intros num from t O L H; [simpl in *; subst; nia|].
  cbn [passed ahead behind ordered] in *. apply andb_prop in O as [O1 O2]. apply Z.leb_le in O1.
  assert (A := ahead_positive den l (p_num p) (p_from p)). assert (B := behind_negative den l (p_num p) (p_from p)).
  destruct (t <? p_from p) eqn:E; [apply Z.ltb_lt in E|apply Z.ltb_ge in E].
  - replace ((t - from) * num - den * (t - from)) with ((t - from) * (num - den)) by ring.
    assert (Z.min 0 ((p_from p - from) * (num - den)) <= (t - from) * (num - den) <= Z.max 0 ((p_from p - from) * (num - den))) by (split; nia). lia.
  - assert (L' : p_num (last l (Part 0 0 (p_num p))) = den). { destruct l as [|q l]; [exact L|]. rewrite <- L. clear. cbn [last]. revert q. induction l as [|r l IH]; intros q; [reflexivity|]. apply IH. }
    specialize (IH (p_num p) (p_from p) t O2 L' E).
    assert ((p_from p - from) * (num - den) = (p_from p - from) * num - den * (p_from p - from)) by ring.
    assert (den * (t - from) = den * (t - p_from p) + den * (p_from p - from)) by ring. lia.
Qed.

Lemma shows_near k t : sane k = true -> settles k = true -> t + least k <= shows k t <= t + most k.
Proof.
  intros S L. apply sane_spec in S as [D [O _]]. unfold settles in L. apply Z.eqb_eq in L. unfold shows, least, most.
  set (d := c_den k) in *. set (x := passed d d 0 (c_parts k) t).
  assert (A := ahead_positive d (c_parts k) d 0). assert (B := behind_negative d (c_parts k) d 0).
  assert (X : behind d d 0 (c_parts k) <= x - d * t <= ahead d d 0 (c_parts k)).
  { destruct (Z.lt_ge_cases t 0) as [N|N].
    - assert (E : x = d * t). { unfold x. destruct (c_parts k) as [|p l]; simpl; [ring|]. simpl in O. apply andb_prop in O as [O _]. apply Z.leb_le in O.
        replace (t <? p_from p) with true by (symmetry; apply Z.ltb_lt; lia). ring. }
      lia.
    - replace (d * t) with (d * (t - 0)) by ring. apply passed_near; auto. }
  replace (x / d) with (t + (x - d * t) / d).
  - assert (behind d d 0 (c_parts k) / d <= (x - d * t) / d) by (apply Z.div_le_mono; lia).
    assert ((x - d * t) / d <= ahead d d 0 (c_parts k) / d) by (apply Z.div_le_mono; lia). lia.
  - replace (x - d * t) with (x + - t * d) by ring. rewrite Z.div_add by lia. lia.
Qed.

(* No node's clock is set back, and any two differ by at most so many µs. *)
Definition steady k := sane k && (0 <=? back (c_parts k)) && settles k.
Definition agree spread ns := forallb steady (those ns) && forallb (fun k => forallb (fun j => most k - least j <=? 1000 * spread) (those ns)) (those ns).

Theorem clocks_that_agree w spread ns : agree spread ns = true -> node_clock w = courses ns -> not_set_back w /\ clocks_agree w spread.
Proof.
  unfold agree. rewrite andb_true_iff, !forallb_forall. intros [S A] En. split.
  - intros n t u H. rewrite En. assert (K := S _ (nth_those ns n)). unfold steady in K. rewrite !andb_true_iff, Z.leb_le in K. now apply shows_forward.
  - intros n m t. unfold us. rewrite En. unfold courses. assert (K := S _ (nth_those ns n)). assert (J := S _ (nth_those ns m)).
    assert (X := A _ (nth_those ns m)). rewrite forallb_forall in X. specialize (X _ (nth_those ns n)). apply Z.leb_le in X.
    set (k := nth n ns _) in *. set (j := nth m ns _) in *. unfold steady in *. rewrite !andb_true_iff in *.
    destruct (shows_near k t) as [K1 _]; [tauto|tauto|]. destruct (shows_near j t) as [_ J1]; [tauto|tauto|].
    rewrite <- Z.div_add by lia. apply Z.div_le_mono; lia.
Qed.
