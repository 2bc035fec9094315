(* Fences. Part 1: the counters are durable. Keys may vanish at any time, clocks may show anything, and
   so exclusion itself may be broken. Numbers of locks with a name in common still differ, and increase. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model Exclusion.
Import ListNotations.
Open Scope Z_scope.

(* A node that executes an acquire has not counted for it before. *)
Lemma not_executed w tolerated s n r R hint edge : tolerated ExecutedOnce = false -> permitted w tolerated s (Exec n r hint edge) = true ->
  find_round r (rounds s) = Some R -> r_kind R = Acquiring -> forall v, ~ In (n, r_token R, v) (numbers s).
Proof.
  intros T P F K v V. assert (B : executed_before s n r = false).
  { apply (never w tolerated s (Exec n r hint edge) ExecutedOnce _ P T). intros H. unfold breaks. apply in_or_app. left. now apply in_when. }
  unfold executed_before in B. rewrite F, K in B.
  assert (H : existsb (fun g => match g with (m, k, _) => Nat.eqb m n && (k =? r_token R) end) (numbers s) = true); [|congruence].
  apply existsb_exists. exists (n, r_token R, v). split; auto. now rewrite Nat.eqb_refl, Z.eqb_refl.
Qed.

Section Fences.
Variable w : world.
Variable tolerated : assumption -> bool.
Hypothesis Hright : right w.
Hypothesis Hsame : same_nodes w.
Hypothesis Hremember : tolerated NodesRemember = false.
Hypothesis Hhonest : tolerated MarkerHonest = false.
Hypothesis Honce : tolerated ExecutedOnce = false.

Definition share a b := exists x, In x (names w a) /\ In x (names w b).

(* At node n, all that was counted for a is below all that was counted for b. *)
Definition before s n a b := forall v, In (n, b, v) (numbers s) ->
  (forall u, In (n, a, u) (numbers s) -> u < v) /\ (forall F, In (n, a, F) (confirms s) -> F < v).

Record finv (s : state) : Prop := FInv {
  f_names : forall n x a e, key s n x = Some (a, e) -> In x (names w a);
  f_number : forall n a v x, In (n, a, v) (numbers s) -> In x (names w a) -> v <= counter s n x;
  f_confirm : forall n a F x, In (n, a, F) (confirms s) -> In x (names w a) -> F <= counter s n x;
  f_key : forall n x a b e, key s n x = Some (a, e) -> extended s a = false -> b <> a -> In x (names w b) -> before s n b a;
  f_order : forall n a b, a <> b -> share a b -> before s n a b \/ before s n b a;
  f_stands : forall a F, In (a, F) (fences s) -> exists c, (length (members w c) < 2 * length (filter (stands w s a F) (members w c)))%nat }.

Lemma finv_init : finv init.
Proof. constructor; simpl; try tauto; try discriminate. intros n a b _ _. left. intros v []. Qed.

(* ---- The parts of a step ---- *)

Lemma stands_more s s' a F n : incl (numbers s) (numbers s') -> incl (confirms s) (confirms s') -> stands w s a F n = true -> stands w s' a F n = true.
Proof.
  intros HN HC. unfold stands. rewrite !existsb_exists. intros [[[m k] v] [H E]]. exists (m, k, v). split; [apply HN; exact H|].
  rewrite !andb_true_iff in *. destruct E as [E1 E2]. split; auto. rewrite orb_true_iff in *. destruct E2 as [E2|E2]; auto. right.
  rewrite andb_true_iff in *. destruct E2 as [E2 E3]. split; auto. rewrite existsb_exists in *. destruct E3 as [y [Y1 Y2]]. exists y. split; [apply HC; exact Y1|exact Y2].
Qed.

Lemma stands_spec s a F n : stands w s a F n = true -> exists v, In (n, a, v) (numbers s) /\ v <= F /\ (v = F \/ In (n, a, F) (confirms s)).
Proof.
  unfold stands. rewrite existsb_exists. intros [[[m k] v] [H E]]. rewrite Hright, orb_false_r, !andb_true_iff, Nat.eqb_eq, Z.eqb_eq in E. destruct E as [[-> ->] E].
  exists v. split; auto. apply orb_prop in E as [E|E]; [apply Z.eqb_eq in E; split; auto; lia|].
  apply andb_prop in E as [E1 E2]. apply Z.ltb_lt in E1. split; [lia|]. right.
  apply existsb_exists in E2 as [[[m' k'] v'] [H' E']]. rewrite !andb_true_iff, Nat.eqb_eq, !Z.eqb_eq in E'. destruct E' as [[-> ->] ->]. exact H'.
Qed.

(* What the invariant does not speak of may change; keys may vanish, and keep their token. *)
Lemma finv_rest s s' : counter s' = counter s -> numbers s' = numbers s -> confirms s' = confirms s -> fences s' = fences s ->
  (forall n x a e, key s' n x = Some (a, e) -> exists e', key s n x = Some (a, e')) ->
  (forall tok, extended s' tok = false -> extended s tok = false) -> finv s -> finv s'.
Proof.
  intros EC EN EF ES K X I. constructor; unfold before in *; try rewrite EC; try rewrite EN; try rewrite EF; try apply I.
  - intros n x a e H. destruct (K n x a e H) as [e' H']. exact (f_names s I n x a e' H').
  - intros n x a b e H E. destruct (K n x a e H) as [e' H']. apply (f_key s I n x a b e' H'); auto.
  - rewrite ES. intros a F H. destruct (f_stands s I a F H) as [c Q]. exists c. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros n. apply stands_more; [rewrite EN|rewrite EF]; apply incl_refl.
Qed.

Lemma extended_round s R s' tok : begin_round R s = Some s' -> extended s' tok = false -> extended s tok = false.
Proof.
  unfold begin_round. destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. unfold extended. simpl. intros H. apply orb_false_elim in H. apply H.
Qed.

Lemma highest_above s n tok x : In x (names w tok) -> counter s n x <= highest w s n tok.
Proof. unfold highest. induction (names w tok) as [|y l IH]; simpl; [tauto|]. intros [->|H]; [lia|]. apply IH in H. lia. Qed.

Lemma finv_acquire s n R hint edge : finv s -> r_kind R = Acquiring ->
  (forall v, ~ In (n, r_token R, v) (numbers s)) -> finv (exec_acquire w n R hint edge s).
Proof.
  intros I HR U. unfold exec_acquire. destruct (_ && _) eqn:G; [|eapply finv_rest; [..|exact I]; simpl; eauto].
  set (tok := r_token R) in *. set (e0 := ms w n (now s) + r_ttl R). set (s1 := add_answer _ _).
  assert (K : forall m x a e, key s1 m x = Some (a, e) -> (m = n /\ In x (names w tok) /\ a = tok) \/ (~ (m = n /\ In x (names w tok)) /\ key s m x = Some (a, e))).
  { intros m x a e H. simpl in H. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in H|rewrite update_other in H by auto; right; split; auto; tauto].
    destruct (has x (names w tok)) eqn:Hx; [left; apply has_spec in Hx; inversion H; auto|]. right. split; auto. intros [_ X]. apply has_spec in X. congruence. }
  assert (B : forall a b m, before s m a b -> before s1 m a b) by (intros a b m H; exact H).
  assert (I1 : finv s1).
  { constructor; try apply I.
    - intros m x a e H. destruct (K m x a e H) as [[-> [X ->]]|[_ H']]; [exact X|eapply f_names; eauto].
    - intros m x a b e H E N X. destruct (K m x a e H) as [[-> [_ ->]]|[_ H']]; [|apply (f_key s I m x a b e); auto].
      intros v V. exfalso. eapply U. exact V. }
  destruct hint as [h|]; [|exact I1]. simpl. set (v := number w s1 n tok h).
  assert (V : forall x, In x (names w tok) -> counter s n x < v).
  { intros x X. apply (highest_above s n) in X. unfold v, number. change (highest w s1 n tok) with (highest w s n tok). lia. }
  set (s2 := add_number _ _).
  assert (New : forall b, share b tok -> b <> tok -> before s2 n b tok).
  { intros b [x [Xb Xt]] N u [E|E]; [|exfalso; eapply U; exact E]. inversion E; subst u. assert (C := V x Xt). split.
    - intros u' [E'|E']; [inversion E'; congruence|]. assert (D := f_number s I n b u' x E' Xb). lia.
    - intros F E'. assert (D := f_confirm s I n b F x E' Xb). lia. }
  assert (Old : forall m a b, (m <> n \/ a <> tok /\ b <> tok) -> before s m a b -> before s2 m a b).
  { intros m a b D Q u [E|E]; [inversion E; subst; destruct D as [D|[_ D]]; congruence|]. destruct (Q u E) as [Q1 Q2]. split; auto.
    intros u' [E'|E']; auto. inversion E'; subst. destruct D as [D|[D _]]; congruence. }
  assert (C : forall m x, counter s m x <= counter s2 m x).
  { intros m x. simpl. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst m.
    destruct (has x (names w tok)) eqn:Hx; [apply has_spec in Hx; apply V in Hx; simpl; lia|simpl; lia]. }
  constructor.
  - exact (f_names s1 I1).
  - intros m a u x [E|E] X.
    + inversion E; subst. simpl. rewrite update_same. apply has_spec in X. rewrite X. lia.
    + assert (D := f_number s I m a u x E X). specialize (C m x). lia.
  - intros m a F x E X. assert (D := f_confirm s I m a F x E X). specialize (C m x). lia.
  - intros m x a b e H E N X. destruct (K m x a e H) as [[-> [Xt ->]]|[M H']]; [apply New; auto; exists x; auto|].
    apply Old; [|apply (f_key s I m x a b e); auto]. destruct (Nat.eq_dec m n) as [->|Hm]; auto. right.
    assert (A := f_names s I n x a e H'). split; intros ->; apply M; auto.
  - intros m a b N S. destruct (Nat.eq_dec m n) as [->|Hm].
    + destruct (Z.eq_dec b tok) as [->|Hb]; [left; apply New; auto|].
      destruct (Z.eq_dec a tok) as [->|Ha]; [right; apply New; auto; destruct S as [x [X1 X2]]; exists x; auto|].
      destruct (f_order s I n a b N S); [left|right]; apply Old; auto.
    + destruct (f_order s I m a b N S); [left|right]; apply Old; auto.
  - intros a F H. destruct (f_stands s I a F H) as [c Q]. exists c. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros m. apply stands_more; simpl; [intros y Y; now right|apply incl_refl].
Qed.

Lemma finv_confirm s n R F edge : finv s -> finv (confirm w n R F edge s).
Proof.
  intros I. unfold confirm. simpl. set (tok := r_token R). rewrite Hright, orb_false_r. destruct (forallb _ _) eqn:G; auto. rewrite forallb_forall in G.
  set (s1 := set_counter _ _ _).
  assert (C : forall m x, counter s m x <= counter s1 m x).
  { intros m x. simpl. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst m. destruct (has x (names w tok)); lia. }
  assert (I1 : finv s1).
  { constructor; try apply I.
    - intros m a u x E X. assert (D := f_number s I m a u x E X). specialize (C m x). lia.
    - intros m a u x E X. assert (D := f_confirm s I m a u x E X). specialize (C m x). lia. }
  destruct (may_create w (r_client R) s n); simpl; auto. destruct (extended s tok) eqn:X; simpl; auto.
  assert (K : forall x, In x (names w tok) -> exists e, key s n x = Some (tok, e)) by (intros x Hx; apply G in Hx; now apply mine_key in Hx).
  set (s2 := add_confirm _ _).
  assert (Old : forall m a b, (m <> n \/ a <> tok) -> before s m a b -> before s2 m a b).
  { intros m a b D Q u E. destruct (Q u E) as [Q1 Q2]. split; auto. intros F' [E'|E']; auto. inversion E'; subst. destruct D; congruence. }
  assert (Mine : forall b, share tok b -> b <> tok -> before s2 n b tok).
  { intros b [x [X1 X2]] N. destruct (K x X1) as [e Kx]. apply Old; auto. eapply (f_key s I); eauto. }
  constructor; try apply I1.
  - intros m a F' x [E|E] Hx; [|apply (f_confirm s1 I1 m a F' x); auto]. inversion E; subst. simpl. rewrite update_same.
    assert (Hx' := Hx). apply has_spec in Hx'. rewrite Hx'. lia.
  - intros m x a b e H E N Xb. apply Old; [|apply (f_key s I m x a b e); auto]. destruct (Nat.eq_dec m n) as [->|Hm]; auto. right. intros ->.
    destruct (K x Xb) as [e' Kx]. simpl in H. congruence.
  - intros m a b N S. destruct (Nat.eq_dec m n) as [->|Hm].
    + destruct (Z.eq_dec a tok) as [->|Ha]; [right; apply Mine; auto|].
      destruct (Z.eq_dec b tok) as [->|Hb]; [left; apply Mine; auto; destruct S as [x [X1 X2]]; exists x; auto|].
      destruct (f_order s I n a b N S); [left|right]; apply Old; auto.
    + destruct (f_order s I m a b N S); [left|right]; apply Old; auto.
  - intros a F' H. destruct (f_stands s I a F' H) as [d Q]. exists d. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros m. apply stands_more; simpl; [apply incl_refl|intros y Y; now right].
Qed.

Lemma finv_extend s n R edge : finv s -> finv (exec_extend w n R edge s).
Proof. apply finv_rest; try (unfold exec_extend; now destruct (forallb _ _)). intros m x a e. now apply extend_keeps. Qed.

(* A repair creates keys, but only of a token that was acquired: nothing is confirmed for it any more. *)
Lemma finv_repair s n R edge : finv s -> In R (rounds s) -> finv (repair w n R edge s).
Proof.
  intros I HR. unfold repair. destruct (_ && _ && _ && _) eqn:G; auto. rewrite !andb_true_iff in G. destruct G as [[[G _] _] _].
  assert (X : extended s (r_token R) = true).
  { apply existsb_exists. exists R. split; auto. rewrite Z.eqb_refl. exact G. }
  set (s1 := set_key _ _ _).
  assert (K : forall m x a e, key s1 m x = Some (a, e) -> (In x (names w a) /\ a = r_token R) \/ key s m x = Some (a, e)).
  { intros m x a e H. simpl in H. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in H|rewrite update_other in H by auto; auto].
    destruct (has x (names w (r_token R))) eqn:Hx; [|auto]. simpl in H. destruct (free w s n edge x); [|auto]. apply has_spec in Hx. inversion H; subst. auto. }
  constructor; try apply I.
  - intros m x a e H. destruct (K m x a e H) as [[H' _]|H']; auto. eapply f_names; eauto.
  - intros m x a b e H E N Xb. destruct (K m x a e H) as [[_ ->]|H']; [simpl in E; unfold s1, extended in *; simpl in E; congruence|].
    apply (f_key s I m x a b e); auto.
Qed.

Lemma finv_decide s r k u f s' : finv s -> decide w r k u f s = Some s' -> finv s'.
Proof.
  intros I. unfold decide. destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (_ && _ && _); [|discriminate].
  assert (P : forall c tok v, finv (put c tok v s)) by (intros c tok v; eapply finv_rest; [..|exact I]; simpl; eauto).
  destruct (r_kind R), (handle_of (r_client R) (r_token R) (handles s)); try discriminate.
  - destruct (_ || _); [discriminate|]. destruct (f =? 0); [intros E; inversion E; subst; auto|].
    unfold fence_stands. rewrite Hright, orb_false_r. destruct (majority w _ _) eqn:M; [|discriminate]. intros E; inversion E; subst.
    apply (majority_spec w (nearly w Hright)) in M. specialize (P (r_client R) (r_token R) u). constructor; try apply P.
    intros a F [E'|H]; [inversion E'; subst; eauto|]. apply (f_stands s I a F H).
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. auto.
  - intros E; inversion E; subst. auto.
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. auto.
Qed.

Ltac rest I := eapply finv_rest; [..|exact I]; simpl; eauto.

Lemma finv_happen s e s' : finv s -> permitted w tolerated s e = true -> happen w s e = Some s' -> finv s'.
Proof.
  intros I P. destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl.
  - destruct (existsb _ _); [discriminate|]. intros E. assert (X := fun t => extended_round _ _ _ t E). unfold begin_round in E. destruct (find_round _ _); inversion E; subst. eapply finv_rest; [..|exact X|exact I]; simpl; eauto.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E. assert (X := fun t => extended_round _ _ _ t E). unfold begin_round in E. destruct (find_round _ _); inversion E; subst. eapply finv_rest; [..|exact X|exact I]; simpl; eauto.
  - intros E. assert (X := fun t => extended_round _ _ _ t E). unfold begin_round in E. destruct (find_round _ _); inversion E; subst. eapply finv_rest; [..|exact X|exact I]; simpl; eauto.
  - rewrite Hright. now apply finv_decide.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst; auto.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst; rest I.
  - intros E; inversion E; subst; rest I.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. destruct (r_kind R) eqn:KR.
    + apply finv_acquire; auto. exact (not_executed w tolerated s n r R hint edge Honce P F KR).
    + now apply finv_extend.
    + unfold exec_ask. destruct (forallb _ _); rest I.
  - destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); try discriminate. destruct (one_counted s (r_token R) f); [|discriminate].
    intros E; inversion E; subst. now apply finv_confirm.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. apply finv_repair; auto. unfold find_round in F. now apply find_some in F.
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. unfold delete.
    destruct (key s n x) as [[k z]|]; [destruct (_ || _)|]; rest I. intros m y a e H. apply update_some in H as [H|[_ [_ H]]]; [eauto|discriminate].
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. unfold shorten. destruct (key s n x) as [[k z]|] eqn:K; auto. destruct (k =? tok); auto.
    rest I. intros m y a e H. apply update_some in H as [H|[-> [-> H]]]; [eauto|inversion H; subst; eauto].
  - intros E; inversion E; subst. unfold verify. destruct (mark s n) as [|q|]; auto; [rest I|]. destruct (_ <=? _); [rest I|]. destruct (_ <? _); auto. rest I.
  - destruct (mark s n); try discriminate. intros E; inversion E; subst. rest I.
  - intros E; inversion E; subst. rest I. intros m y a e H. apply update_some in H as [H|[_ [_ H]]]; [eauto|discriminate].
  - unfold permitted in P. simpl in P. destruct m; simpl in P; rewrite andb_true_r in P; congruence.
  - intros E; inversion E; subst. rest I.
Qed.

Lemma finv_step s te s' : finv s -> permitted w tolerated (at_time (fst te) s) (snd te) = true -> step w s te = Some s' -> finv s'.
Proof.
  destruct te as [t e]. unfold step. intros I P. destruct (t <? now s); [discriminate|].
  apply finv_happen; [rest I|exact P].
Qed.

Lemma finv_run tr : forall s s', finv s -> run w tolerated s tr = Some s' -> finv s'.
Proof.
  induction tr as [|e tr IH]; simpl; intros s s' I E; [inversion E; subst; auto|].
  destruct (permitted w tolerated (at_time (fst e) s) (snd e)) eqn:P; [|discriminate]. destruct (step w s e) as [s1|] eqn:S; [|discriminate].
  eapply IH; [|exact E]. eapply finv_step; eauto.
Qed.

(* Two fenced locks meet at a node where both fences stand. *)
Lemma fences_meet s a b Fa Fb : finv s -> In (a, Fa) (fences s) -> In (b, Fb) (fences s) ->
  exists n, stands w s a Fa n = true /\ stands w s b Fb n = true.
Proof.
  intros I A B. destruct (f_stands s I a Fa A) as [c Qa]. destruct (f_stands s I b Fb B) as [d Qb]. rewrite (Hsame d c) in Qb.
  destruct (majorities_meet _ _ _ Qa Qb) as [n [_ H]]. eauto.
Qed.

(* FENCES DIFFER. *)
Theorem fences_differ tr s a b Fa Fb : run w tolerated init tr = Some s -> In (a, Fa) (fences s) -> In (b, Fb) (fences s) ->
  a <> b -> share a b -> Fa <> Fb.
Proof.
  intros E A B N S. assert (I := finv_run tr init s finv_init E). destruct (fences_meet s a b Fa Fb I A B) as [n [Na Nb]].
  apply stands_spec in Na as [u [U1 [U2 U3]]]. apply stands_spec in Nb as [v [V1 [V2 V3]]].
  destruct (f_order s I n a b N S) as [O|O].
  - destruct (O v V1) as [O1 O2]. assert (Fa < v) by (destruct U3 as [<-|U3]; auto). lia.
  - destruct (O u U1) as [O1 O2]. assert (Fb < u) by (destruct V3 as [<-|V3]; auto). lia.
Qed.

(* Counters never go back, and a new number is above what its counters were before. *)
Definition after s s' := forall n, (forall x, counter s n x <= counter s' n x) /\
  (forall b v x, In (n, b, v) (numbers s') -> In x (names w b) -> In (n, b, v) (numbers s) \/ counter s n x < v).

Lemma after_same s s' : counter s' = counter s -> numbers s' = numbers s -> after s s'.
Proof. intros C N n. rewrite C, N. split; [intros; lia|auto]. Qed.

Lemma after_trans s0 s1 s2 : after s0 s1 -> after s1 s2 -> after s0 s2.
Proof.
  intros A B n. destruct (A n) as [A1 A2]. destruct (B n) as [B1 B2]. split.
  - intros x. specialize (A1 x). specialize (B1 x). lia.
  - intros b v x V X. destruct (B2 b v x V X) as [V'|V']; [eapply A2; eauto|]. right. specialize (A1 x). lia.
Qed.

Lemma after_acquire s n R hint edge : after s (exec_acquire w n R hint edge s).
Proof.
  unfold exec_acquire. destruct (_ && _); [|apply after_same; reflexivity]. destruct hint as [h|]; [|apply after_same; reflexivity].
  set (s1 := add_answer _ _). set (v := number w s1 n (r_token R) h). simpl. fold v.
  assert (V : forall x, In x (names w (r_token R)) -> counter s n x < v).
  { intros x X. apply (highest_above s n) in X. unfold v, number. change (highest w s1 n (r_token R)) with (highest w s n (r_token R)). lia. }
  intros m. simpl. split.
  - intros x. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst m.
    destruct (has x (names w (r_token R))) eqn:H; [|lia]. apply has_spec in H. apply V in H. lia.
  - intros b u x [E|E] X; auto. inversion E; subst. right. auto.
Qed.

Lemma after_happen s e s' : permitted w tolerated s e = true -> happen w s e = Some s' -> after s s'.
Proof.
  intros P. destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl;
    unfold begin_round, decide, delete, shorten, verify, repair, exec_extend, exec_ask.
  8: { destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); intros E; inversion E; subst; [apply after_acquire| |];
       unfold exec_extend, exec_ask; destruct (forallb _ _); apply after_same; reflexivity. }
  8: { destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); try discriminate. destruct (one_counted s (r_token R) f); [|discriminate]. intros E; inversion E; subst.
       unfold confirm. simpl. destruct (_ || _); [|apply after_same; reflexivity].
       assert (A : after s (set_counter n (fun x => if has x (names w (r_token R)) then Z.max (counter s n x) f else counter s n x) s)).
       { intros m. simpl. split; auto. intros x. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst. destruct (has x (names w (r_token R))); lia. }
       destruct (_ && _); exact A. }
  all: try (unfold permitted in P; simpl in P; destruct m; simpl in P; rewrite andb_true_r in P; congruence).
  all: intros E; rewrite ?Hright in E; repeat match type of E with context [match ?x with _ => _ end] => destruct x; try discriminate E end;
    inversion E; subst; apply after_same; reflexivity.
Qed.

Lemma after_run tr : forall s s', run w tolerated s tr = Some s' -> after s s'.
Proof.
  induction tr as [|e tr IH]; simpl; intros s s' E; [inversion E; subst; apply after_same; reflexivity|].
  destruct (permitted w tolerated (at_time (fst e) s) (snd e)) eqn:P; [|discriminate]. destruct (step w s e) as [s1|] eqn:S; [|discriminate].
  eapply after_trans; [|eapply IH; exact E]. destruct e as [t e]. unfold step in S. destruct (t <? now s); [discriminate|].
  assert (A : after (at_time t s) s1). { eapply after_happen; [exact P|exact S]. }
  exact A.
Qed.

(* FENCES INCREASE. If b's acquire was executed by no node when a had its fence, then b's fence is larger. *)
Theorem fences_increase tr q s s' a b Fa Fb : run w tolerated init tr = Some s -> run w tolerated s q = Some s' ->
  In (a, Fa) (fences s) -> (forall n v, ~ In (n, b, v) (numbers s)) -> In (b, Fb) (fences s') -> share a b -> Fa < Fb.
Proof.
  intros E E' A U B [x [Xa Xb]]. assert (I := finv_run tr init s finv_init E). assert (I' := finv_run q s s' I E').
  destruct (f_stands s I a Fa A) as [c Qa]. destruct (f_stands s' I' b Fb B) as [d Qb]. rewrite (Hsame d c) in Qb.
  destruct (majorities_meet _ _ _ Qa Qb) as [n [_ [Na Nb]]].
  apply stands_spec in Na as [u [U1 [U2 U3]]]. apply stands_spec in Nb as [v [V1 [V2 _]]].
  assert (C : Fa <= counter s n x). { destruct U3 as [<-|U3]; [eapply f_number|eapply f_confirm]; eauto. }
  destruct (after_run q s s' E' n) as [_ G]. destruct (G b v x V1 Xb) as [G'|G']; [exfalso; eapply U; eauto|lia].
Qed.

End Fences.

(* ---- A confirmation counted as a vote ---- *)

Section Confirmations.
Variable w : world.
Variable tolerated : assumption -> bool.
Hypothesis Hright : right w.
Hypothesis Hremember : tolerated NodesRemember = false.
Hypothesis Hhonest : tolerated MarkerHonest = false.

(* Node n has granted the acquire of token a. *)
Definition granted s n a := exists y R, In y (answers s) /\ In R (rounds s) /\ a_node y = n /\ a_vote y = true /\ a_round y = r_id R /\ r_kind R = Acquiring /\ r_token R = a.

Record ginv (s : state) : Prop := GInv {
  g_key : forall n x a e, key s n x = Some (a, e) -> extended s a = false -> granted s n a;
  g_confirm : forall n a F, In (n, a, F) (confirms s) -> names w a <> [] -> granted s n a }.

Lemma granted_more s s' n a : incl (answers s) (answers s') -> incl (rounds s) (rounds s') -> granted s n a -> granted s' n a.
Proof. intros A B [y [R [H1 [H2 H]]]]. exists y, R. auto. Qed.

Lemma extended_more s s' a : incl (rounds s) (rounds s') -> extended s' a = false -> extended s a = false.
Proof.
  unfold extended. intros A H. apply not_true_is_false. intros T. apply existsb_exists in T as [R [R1 R2]]. apply not_true_iff_false in H. apply H.
  apply existsb_exists. exists R. auto.
Qed.

(* What the invariant does not speak of may change; keys may vanish, and keep their token. *)
Lemma ginv_rest s s' : confirms s' = confirms s -> incl (answers s) (answers s') -> incl (rounds s) (rounds s') ->
  (forall n x a e, key s' n x = Some (a, e) -> exists e', key s n x = Some (a, e')) -> ginv s -> ginv s'.
Proof.
  intros C A B K I. constructor.
  - intros n x a e H X. destruct (K n x a e H) as [e' H']. apply (granted_more s); auto. apply (g_key s I n x a e'); auto. exact (extended_more s s' a B X).
  - rewrite C. intros n a F H N. apply (granted_more s); auto. exact (g_confirm s I n a F H N).
Qed.

Ltac same I := eapply ginv_rest; [..|exact I]; [reflexivity|apply incl_refl|apply incl_refl|]; simpl; eauto.

Lemma ginv_acquire s n R hint edge : ginv s -> In R (rounds s) -> r_kind R = Acquiring -> ginv (exec_acquire w n R hint edge s).
Proof.
  intros I HR K. unfold exec_acquire. destruct (_ && _).
  2: { eapply ginv_rest; [..|exact I]; simpl; [reflexivity|apply incl_tl, incl_refl|apply incl_refl|eauto]. }
  set (s1 := add_answer _ _). assert (M : forall m a, granted s m a -> granted s1 m a).
  { intros m a. apply granted_more; [apply incl_tl, incl_refl|apply incl_refl]. }
  assert (I1 : ginv s1).
  { constructor.
    - intros m x a e H X. simpl in H. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in H|rewrite update_other in H by auto; apply M; exact (g_key s I m x a e H X)].
      destruct (has x (names w (r_token R))); [|apply M; exact (g_key s I n x a e H X)]. inversion H; subst.
      exists (Answer n (r_id R) true (r_ttl R)), R. repeat split; auto. now left.
    - intros m a F H N. apply M. exact (g_confirm s I m a F H N). }
  destruct hint; [|exact I1]. simpl. eapply ginv_rest; [..|exact I1]; [reflexivity|apply incl_refl|apply incl_refl|]. simpl. eauto.
Qed.

Lemma ginv_repair s n R edge : ginv s -> In R (rounds s) -> ginv (repair w n R edge s).
Proof.
  intros I HR. unfold repair. destruct (_ && _ && _ && _) eqn:G; [|exact I]. rewrite !andb_true_iff in G. destruct G as [[[G _] _] _].
  constructor; [|exact (g_confirm s I)]. intros m x a e H X. simpl in H.
  destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in H|rewrite update_other in H by auto; exact (g_key s I m x a e H X)].
  destruct (has x (names w (r_token R)) && free w s n edge x); [|exact (g_key s I n x a e H X)]. inversion H; subst.
  assert (T : extended s (r_token R) = true); [|unfold extended in *; simpl in X; congruence]. apply existsb_exists. exists R. split; auto. rewrite Z.eqb_refl. exact G.
Qed.

Lemma ginv_confirm s n R F edge : ginv s -> ginv (confirm w n R F edge s).
Proof.
  intros I. unfold confirm. simpl. rewrite Hright, orb_false_r. destruct (forallb _ _) eqn:G; [|exact I]. rewrite forallb_forall in G.
  destruct (may_create w (r_client R) s n); simpl; [|same I]. destruct (extended s (r_token R)) eqn:X; simpl; [same I|].
  constructor; [exact (g_key s I)|]. intros m a F' [H|H] N; [|exact (g_confirm s I m a F' H N)]. inversion H; subst.
  destruct (names w (r_token R)) as [|x l]; [congruence|]. assert (K := G x (or_introl eq_refl)). apply mine_key in K as [e K]. exact (g_key s I m x (r_token R) e K X).
Qed.

Lemma ginv_extend s n R edge : ginv s -> ginv (exec_extend w n R edge s).
Proof.
  apply ginv_rest; try (unfold exec_extend; destruct (forallb _ _); solve [reflexivity | apply incl_refl | apply incl_tl, incl_refl]).
  intros m x a e. now apply extend_keeps.
Qed.

Lemma ginv_happen s e s' : ginv s -> permitted w tolerated s e = true -> happen w s e = Some s' -> ginv s'.
Proof.
  intros I P. destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl;
    unfold begin_round, decide, verify.
  - destruct (existsb _ _); [discriminate|]. destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. eapply ginv_rest; [..|exact I]; simpl; [reflexivity|apply incl_refl|apply incl_tl, incl_refl|eauto].
  - destruct (valid _ _ _ _ _); [|discriminate]. destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. eapply ginv_rest; [..|exact I]; simpl; [reflexivity|apply incl_refl|apply incl_tl, incl_refl|eauto].
  - destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. eapply ginv_rest; [..|exact I]; simpl; [reflexivity|apply incl_refl|apply incl_tl, incl_refl|eauto].
  - rewrite Hright. destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (_ && _ && _); [|discriminate]. intros E.
    destruct (r_kind R), (handle_of (r_client R) (r_token R) (handles s)); try discriminate;
      repeat match type of E with context [if ?b then _ else _] => destruct b; try discriminate E end; inversion E; subst; same I.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst. exact I.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst. same I.
  - intros E; inversion E; subst. same I.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. destruct (r_kind R) eqn:K.
    + apply ginv_acquire; auto. unfold find_round in F. now apply find_some in F.
    + now apply ginv_extend.
    + unfold exec_ask. destruct (forallb _ _); (eapply ginv_rest; [..|exact I]; simpl; [reflexivity|apply incl_tl, incl_refl|apply incl_refl|eauto]).
  - destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); try discriminate. destruct (one_counted _ _ _); [|discriminate].
    intros E; inversion E; subst. now apply ginv_confirm.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. apply ginv_repair; auto. unfold find_round in F. now apply find_some in F.
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. unfold delete.
    destruct (key s n x) as [[k z]|]; [destruct (_ || _)|]; same I. intros m y a e H. apply update_some in H as [H|[_ [_ H]]]; [eauto|discriminate].
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. unfold shorten. destruct (key s n x) as [[k z]|] eqn:K; [|exact I]. destruct (k =? tok); [|exact I].
    same I. intros m y a e H. apply update_some in H as [H|[-> [-> H]]]; [eauto|inversion H; subst; eauto].
  - intros E; inversion E; subst. destruct (mark s n) as [|q|]; [same I| |exact I]. destruct (_ <=? _); [same I|]. destruct (_ <? _); [same I|exact I].
  - destruct (mark s n); try discriminate. intros E; inversion E; subst. same I.
  - intros E; inversion E; subst. same I. intros m y a e H. apply update_some in H as [H|[_ [_ H]]]; [eauto|discriminate].
  - unfold permitted in P. simpl in P. destruct m; simpl in P; rewrite andb_true_r in P; congruence.
  - intros E; inversion E; subst. same I.
Qed.

(* A CONFIRMATION IS NO NEW VOTE. While nodes remember, a node that confirmed a fence of a lock, before an extension of it began, has granted it. So a client
   that takes confirmations for votes counts none that the nodes did not give: this mistake breaks nothing. *)
Theorem confirmations_are_no_new_votes tr s n a F : run w tolerated init tr = Some s -> In (n, a, F) (confirms s) -> names w a <> [] -> granted s n a.
Proof.
  intros E. enough (C : ginv s) by (exact (g_confirm s C n a F)). revert E. assert (C0 : ginv init) by (constructor; simpl; [discriminate|tauto]). revert C0. generalize init as s0.
  induction tr as [|[t v] tr IH]; simpl; intros s0 C0 E; [inversion E; subst; auto|].
  destruct (permitted w tolerated (at_time t s0) v) eqn:P; [|discriminate]. destruct (t <? now s0); [discriminate|].
  destruct (happen w (at_time t s0) v) as [s1|] eqn:S; [|discriminate]. apply (IH s1); auto. refine (ginv_happen (at_time t s0) v s1 _ P S). same C0.
Qed.

End Confirmations.
