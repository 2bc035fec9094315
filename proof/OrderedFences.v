(* Fences. Part 2: while all that exclusion assumes holds. Each fence is larger than that of every lock that was acquired before and has a name in common.
   If nodes forget, under the restart guard, this needs the clocks of nodes to agree well enough, and not to be set back. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model Exclusion Fences.
Import ListNotations.
Open Scope Z_scope.

Section OrderedFences.
Variable w : world.
Variable tolerated : assumption -> bool.
Hypothesis Hright : right w.
Hypothesis Hmono : monotonic w.
Hypothesis Hdrift : within_drift w.
Hypothesis Hsame : same_nodes w.
Hypothesis Hkeys : tolerated KeysKept = false.
Hypothesis Hhonest : tolerated MarkerHonest = false.
Hypothesis Hclaim : tolerated ClaimOnce = false.
Hypothesis Hguard : forget_under_guard w tolerated.
Hypothesis Honce : tolerated ExecutedOnce = false.

(* If nodes forget: no wait is skipped, no number runs ahead, no node's clock is set back, and at every instant any two differ by at most
   [spread] µs. That is less than the longest TTL, less twice the clamp, and less a millisecond. *)
Variable spread : Z.
Definition not_set_back := forall n t t', t <= t' -> node_clock w n t <= node_clock w n t'.
Definition clocks_agree := forall n m t, us w m t <= us w n t + spread.
Definition fences_survive_forgetting := tolerated NodesRemember = true ->
  tolerated AdmitNothing = false /\ tolerated NumbersPaced = false /\ not_set_back /\ clocks_agree /\ spread + 2 * clamp w + 1000 <= max_ttl w * 1000.
Hypothesis Hforget : fences_survive_forgetting.
Let Hnearly : right_but_creating w := nearly w Hright.

Notation inv := (Exclusion.inv w tolerated).
Notation lossy := (tolerated NodesRemember = true).

Lemma us_forward n t t' : not_set_back -> t <= t' -> us w n t <= us w n t'.
Proof. intros F H. unfold us. apply Z.div_le_mono; [lia|]. now apply F. Qed.

Lemma us_ms n t : 1000 * ms w n t <= us w n t <= 1000 * ms w n t + 999.
Proof.
  unfold us, ms, MS. assert (A := Z.div_mod (node_clock w n t) 1000 ltac:(lia)). assert (A' := Z.mod_pos_bound (node_clock w n t) 1000 ltac:(lia)).
  assert (B := Z.div_mod (node_clock w n t) 1000000 ltac:(lia)). assert (B' := Z.mod_pos_bound (node_clock w n t) 1000000 ltac:(lia)). lia.
Qed.

(* What was recorded at a node for a token: the number of its grant, or a fence that it confirmed. *)
Definition record s n a F := In (n, a, F) (numbers s) \/ In (n, a, F) (confirms s).

(* Whatever the node counts from now on for name x is larger than F. *)
Definition covered s n x F := F <= counter s n x \/ lossy /\
  (mark s n = Unmarked \/ (exists q, mark s n = Quarantined q /\ F < 1000 * q - clamp w) \/
   (mark s n = Fit /\ exists t, t <= now s /\ F < us w n t - clamp w)).

(* Each fence of a list, the newest first, is above those that are older. *)
Definition in_order (l : list (Z * Z)) := forall l1 b Fb l2 a Fa, l = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b -> share w a b -> Fa < Fb.

Record oinv (s : state) : Prop := OInv {
  o_inv : inv s;
  o_one : forall r q R Q, find_round r (rounds s) = Some R -> find_round q (rounds s) = Some Q ->
      r_kind R = Acquiring -> r_kind Q = Acquiring -> r_token R = r_token Q -> r = q;
  o_number : forall n a v, In (n, a, v) (numbers s) ->
      exists r R, find_round r (rounds s) = Some R /\ r_kind R = Acquiring /\ r_token R = a /\ vote s n r (r_ttl R);
  o_covered : forall n a F x, record s n a F -> In x (names w a) -> covered s n x F;
  o_paced : forall n a F, record s n a F -> lossy -> exists m t, t <= now s /\ F <= us w m t + clamp w;
  (* while an attempt is active, a node that granted it has counted nothing above it *)
  o_latest : forall n r R b, vote s n r (r_ttl R) -> find_round r (rounds s) = Some R -> r_kind R = Acquiring ->
      active w s R (r_ttl R) -> b <> r_token R -> share w b (r_token R) -> before s n b (r_token R);
  o_stands : forall a F, In (a, F) (fences s) ->
      exists c, (length (members w c) < 2 * length (filter (stands w s a F) (members w c)))%nat;
  o_order : in_order (fences s) }.

Lemma oinv_init : oinv init.
Proof.
  constructor; try (simpl; discriminate).
  - apply inv_init.
  - intros n a v [].
  - intros n a F x [[]|[]].
  - intros n a F [[]|[]].
  - intros a F [].
  - intros l1 b Fb l2 a Fa E. destruct l1; discriminate.
Qed.

Lemma no_other s n edge x : inv s -> free w s n edge x = true -> (lossy -> fit s n = true) ->
  forall q Q k, vote s n q k -> find_round q (rounds s) = Some Q -> active w s Q k -> In x (names w (r_token Q)) -> False.
Proof. intros. eapply alone; eauto. Qed.

Lemma creates_fit c s n : may_create w c s n = true -> lossy -> fit s n = true.
Proof. intros. eapply may_create_fit; eauto. Qed.

(* ---- The parts of a step ---- *)

(* Nothing is counted, and no node changes its marker. *)
Lemma o_same s s' : oinv s -> inv s' -> now s' = now s -> mark s' = mark s -> counter s' = counter s -> numbers s' = numbers s ->
  confirms s' = confirms s -> fences s' = fences s -> rounds s' = rounds s ->
  (forall n r l, vote s n r l -> vote s' n r l) ->
  (forall n r l R, vote s' n r l -> find_round r (rounds s) = Some R -> r_kind R = Acquiring -> vote s n r l) ->
  (forall R l, active w s' R l -> active w s R l) -> oinv s'.
Proof.
  intros I J En Em Ec Eu Ef Es Er V1 V2 A.
  assert (B : forall n a b, before s n a b -> before s' n a b) by (intros n a b H; unfold before in *; rewrite Eu, Ef; exact H).
  constructor; rewrite ?Er, ?Es.
  - exact J.
  - apply (o_one s I).
  - rewrite Eu. intros n a v H. destruct (o_number s I n a v H) as [r [R [H1 [H2 [H3 H4]]]]]. exists r, R. auto.
  - unfold record, covered. rewrite Eu, Ef, Ec, Em, En. apply (o_covered s I).
  - unfold record. rewrite Eu, Ef, En. apply (o_paced s I).
  - intros n r R b V Hr Hk Ha Hb Hs. apply B. exact (o_latest s I n r R b (V2 n r _ R V Hr Hk) Hr Hk (A _ _ Ha) Hb Hs).
  - intros a G H. destruct (o_stands s I a G H) as [c Q]. exists c. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros n. apply stands_more; [rewrite Eu|rewrite Ef]; apply incl_refl.
  - apply (o_order s I).
Qed.

Lemma active_time s t R l : now s <= t -> active w (at_time t s) R l -> active w s R l.
Proof. intros Ht [L [A B]]. split; [exact L|]. split; auto. simpl in B. assert (M := Hmono (r_client R) (now s) t Ht). lia. Qed.

Lemma o_time s t : oinv s -> now s <= t -> oinv (at_time t s).
Proof.
  intros I Ht. constructor.
  - eapply inv_time; eauto. apply (o_inv s I).
  - apply (o_one s I).
  - apply (o_number s I).
  - intros n a F x H X. destruct (o_covered s I n a F x H X) as [C|[L [C|[C|[C [u [U1 U2]]]]]]]; [now left|right; auto|right; auto|].
    right. split; auto. right. right. split; auto. exists u. simpl. split; [lia|auto].
  - intros n a F H L. destruct (o_paced s I n a F H L) as [m [u [U1 U2]]]. exists m, u. simpl. split; [lia|auto].
  - intros n r R b V Hr Hk Ha. apply (active_time s t R _ Ht) in Ha. exact (o_latest s I n r R b V Hr Hk Ha).
  - apply (o_stands s I).
  - apply (o_order s I).
Qed.

Lemma o_round s R s' : oinv s -> inv s' -> begin_round R s = Some s' ->
  (r_kind R = Acquiring -> forall Q, In Q (rounds s) -> r_token Q <> r_token R) -> oinv s'.
Proof.
  unfold begin_round. intros I J E N. destruct (find_round (r_id R) (rounds s)) eqn:F; [discriminate|]. inversion E; subst s'; clear E.
  assert (K : forall r Q, find_round r (rounds s) = Some Q -> find_round r (R :: rounds s) = Some Q).
  { intros r Q H. unfold find_round in *. simpl. destruct (Nat.eqb (r_id R) r) eqn:Er; auto. apply Nat.eqb_eq in Er. rewrite Er in F. congruence. }
  assert (B : forall n r l Q, vote s n r l -> find_round r (R :: rounds s) = Some Q -> find_round r (rounds s) = Some Q).
  { intros n r l Q [a [Ha [_ [Hr _]]]] H. destruct (i_known w tolerated s (o_inv s I) a Ha) as [Q' H']. rewrite Hr in H'. assert (H2 := K _ _ H'). congruence. }
  assert (C : forall r Q, find_round r (R :: rounds s) = Some Q -> (r = r_id R /\ Q = R) \/ find_round r (rounds s) = Some Q).
  { intros r Q H. unfold find_round in H. simpl in H. destruct (Nat.eqb (r_id R) r) eqn:Er; [left|right; exact H]. apply Nat.eqb_eq in Er. inversion H. split; congruence. }
  constructor; simpl; try apply I.
  - exact J.
  - intros r q P Q HP HQ KP KQ T. destruct (C r P HP) as [[-> ->]|HP']; destruct (C q Q HQ) as [[-> ->]|HQ']; auto.
    + exfalso. apply (N KP Q); auto. unfold find_round in HQ'. now apply find_some in HQ'.
    + exfalso. apply (N KQ P); auto. unfold find_round in HP'. now apply find_some in HP'.
    + apply (o_one s I r q P Q); auto.
  - intros n a v H. destruct (o_number s I n a v H) as [r [Q [H1 [H2 [H3 H4]]]]]. exists r, Q. split; [exact (K r Q H1)|auto].
  - intros n r Q b V Hr. exact (o_latest s I n r Q b V (B _ _ _ _ V Hr)).
Qed.

(* A node that may vote counts above all that was recorded at it. *)
Lemma number_above s n b F x tok h : oinv s -> (lossy -> fit s n = true) -> record s n b F -> In x (names w b) -> In x (names w tok) -> F < number w s n tok h.
Proof.
  intros I Hf Hr Xb Xt. assert (V := highest_above w s n tok x Xt). unfold number, clamped.
  destruct (o_covered s I n b F x Hr Xb) as [C|[L C]]; [lia|]. destruct (Hforget L) as [_ [_ [D _]]]. apply Hf in L. unfold fit in L.
  destruct C as [C|[[q [C _]]|[_ [t [T1 T2]]]]]; [rewrite C in L; discriminate|rewrite C in L; discriminate|].
  assert (U := us_forward n t (now s) D T1). lia.
Qed.

Lemma o_acquire s n r R hint edge : oinv s -> inv (exec_acquire w n R hint edge s) -> find_round r (rounds s) = Some R -> r_kind R = Acquiring ->
  (forall v, ~ In (n, r_token R, v) (numbers s)) ->
  (lossy -> forall h, hint = Some h -> exists m, number w s n (r_token R) h <= us w m (now s) + clamp w) ->
  oinv (exec_acquire w n R hint edge s).
Proof.
  intros I J F HR U P. assert (Id : r_id R = r) by apply (i_past w tolerated s (o_inv s I) r R F).
  revert J. unfold exec_acquire. destruct (forallb (free w s n edge) (names w (r_token R)) && may_create w (r_client R) s n) eqn:G.
  2: { intros J. eapply o_same; eauto; try reflexivity.
       - intros m q l [a [H E]]. exists a. split; [now right|exact E].
       - intros m q l Q [a [[<-|H] E]] _ _; [destruct E as [_ [_ [E _]]]; discriminate|]. exists a. auto. }
  apply andb_prop in G as [G1 G2]. rewrite forallb_forall in G1.
  set (tok := r_token R) in *. set (e0 := ms w n (now s) + r_ttl R). set (s1 := add_answer _ _).
  assert (V1 : forall m q k, vote s m q k -> vote s1 m q k) by (intros m q k [a [H E]]; exists a; split; [now right|exact E]).
  assert (V2 : forall m q k, vote s1 m q k -> (m = n /\ q = r /\ k <= r_ttl R) \/ vote s m q k).
  { intros m q k [a [[<-|H] [E1 [E2 [E3 E4]]]]]; simpl in *; [left|right; exists a; auto]. subst. auto. }
  assert (V3 : vote s1 n r (r_ttl R)).
  { exists (Answer n (r_id R) true (r_ttl R)). split; [now left|]. simpl. repeat split; auto. lia. }
  (* of any state with these votes, whatever was counted *)
  assert (Latest : forall s', answers s' = answers s1 -> rounds s' = rounds s1 -> ended s' = ended s1 -> now s' = now s1 ->
    (forall b, share w b tok -> b <> tok -> before s' n b tok) ->
    (forall m a b, (m <> n \/ a <> tok /\ b <> tok) -> before s m a b -> before s' m a b) ->
    forall m q Q b, vote s' m q (r_ttl Q) -> find_round q (rounds s') = Some Q -> r_kind Q = Acquiring -> active w s' Q (r_ttl Q) ->
    b <> r_token Q -> share w b (r_token Q) -> before s' m b (r_token Q)).
  { intros s' Ea Er Ee En New Old m q Q b V HQ KQ A N S. unfold vote in V. rewrite Ea in V. rewrite Er in HQ.
    assert (A' : active w s Q (r_ttl Q)) by (unfold active in *; rewrite Ee, En in A; exact A).
    destruct (Z.eq_dec (r_token Q) tok) as [T|T].
    - rewrite T in *. destruct (Nat.eq_dec m n) as [->|Hm]; [apply New; auto|]. destruct (V2 m q _ V) as [[E _]|V']; [congruence|].
      apply Old; auto. rewrite <- T. apply (o_latest s I m q Q b); auto; rewrite T; auto.
    - destruct (V2 m q _ V) as [[_ [-> _]]|V']; [exfalso; apply T; assert (Z0 : Q = R) by (simpl in HQ; congruence); subst Q; reflexivity|].
      assert (B := o_latest s I m q Q b V' HQ KQ A' N S). apply Old; auto. destruct (Nat.eq_dec m n) as [->|Hm]; auto. right. split; auto.
      intros ->. destruct S as [x [X1 X2]]. exact (no_other s n edge x (o_inv s I) (G1 x X1) (creates_fit _ _ _ G2) q Q _ V' HQ A' X2). }
  destruct hint as [h|]; simpl.
  2: { intros J. constructor; try apply I.
    - exact J.
    - intros m a v H. destruct (o_number s I m a v H) as [q [Q [H1 [H2 [H3 H4]]]]]. exists q, Q. split; [exact H1|]. split; [exact H2|]. split; [exact H3|exact (V1 _ _ _ H4)].
    - apply (Latest s1); auto. intros b _ _ v V. exfalso. exact (U v V). }
  fold s1. set (v := number w s1 n tok h). set (s2 := add_number _ _). intros J.
  assert (Ev : v = number w s n tok h) by reflexivity.
  assert (New : forall b, share w b tok -> b <> tok -> before s2 n b tok).
  { intros b [x [Xb Xt]] N u [E|E]; [|exfalso; exact (U u E)]. inversion E; subst u. split.
    - intros u' [E'|E']; [inversion E'; congruence|]. fold v. rewrite Ev. apply (number_above s n b u' x); auto; [exact (creates_fit _ _ _ G2)|now left].
    - intros G E'. fold v. rewrite Ev. apply (number_above s n b G x); auto; [exact (creates_fit _ _ _ G2)|now right]. }
  assert (Old : forall m a b, (m <> n \/ a <> tok /\ b <> tok) -> before s m a b -> before s2 m a b).
  { intros m a b D Q u [E|E]; [inversion E; subst; destruct D as [D|[_ D]]; congruence|]. destruct (Q u E) as [Q1 Q2]. split; auto.
    intros u' [E'|E']; auto. inversion E'; subst. destruct D as [D|[D _]]; congruence. }
  assert (C : forall m x, counter s m x <= counter s2 m x).
  { intros m x. simpl. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst m.
    destruct (has x (names w tok)) eqn:Hx; [|simpl; lia]. apply has_spec in Hx. assert (H := highest_above w s n tok x Hx).
    fold v. rewrite Ev. unfold number. simpl. lia. }
  assert (Rec : forall m a G, record s2 m a G -> (m = n /\ a = tok /\ G = v) \/ record s m a G).
  { intros m a G [[E|E]|E]; [left; inversion E; auto|right; now left|right; now right]. }
  constructor.
  - exact J.
  - apply (o_one s I).
  - intros m a u [E|E]; [injection E as E1 E2 E3; exists r, R; rewrite <- E1, <- E2; split; auto|].
    destruct (o_number s I m a u E) as [q [Q [H1 [H2 [H3 H4]]]]]. exists q, Q. split; [exact H1|]. split; [exact H2|]. split; [exact H3|exact (V1 _ _ _ H4)].
  - intros m a G x H X. destruct (Rec m a G H) as [[-> [-> ->]]|H'].
    + left. simpl. rewrite update_same. apply has_spec in X. rewrite X. fold v. lia.
    + specialize (C m x). destruct (o_covered s I m a G x H' X) as [D|D]; [left; lia|right; exact D].
  - intros m a G H L. destruct (Rec m a G H) as [[-> [-> ->]]|H']; [|exact (o_paced s I m a G H' L)].
    destruct (P L h eq_refl) as [m P']. exists m, (now s). split; [simpl; lia|]. rewrite Ev. exact P'.
  - apply (Latest s2); auto.
  - intros a G H. destruct (o_stands s I a G H) as [c Q]. exists c. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros m. apply stands_more; simpl; [intros y Y; now right|apply incl_refl].
  - apply (o_order s I).
Qed.

Lemma o_confirm s n r R F edge : oinv s -> inv (confirm w n R F edge s) -> find_round r (rounds s) = Some R -> r_kind R = Acquiring ->
  one_counted s (r_token R) F = true -> oinv (confirm w n R F edge s).
Proof.
  intros I J HF HR O. revert J. unfold confirm. simpl. set (tok := r_token R) in *. rewrite Hright, orb_false_r.
  destruct (forallb (mine w s n edge tok) (names w tok)) eqn:G; [|intros _; exact I]. rewrite forallb_forall in G.
  set (s1 := set_counter _ _ _).
  assert (C : forall m x, counter s m x <= counter s1 m x).
  { intros m x. simpl. unfold update. destruct (Nat.eqb m n) eqn:M; [|lia]. apply Nat.eqb_eq in M. subst m. destruct (has x (names w tok)); lia. }
  assert (J1 : inv s1) by (eapply inv_rest; [..|apply (o_inv s I)]; reflexivity).
  assert (I1 : oinv s1).
  { constructor; try apply I; [exact J1|]. intros m a u x H X. specialize (C m x). destruct (o_covered s I m a u x H X) as [D|D]; [left; lia|right; exact D]. }
  destruct (may_create w (r_client R) s n && negb (extended s tok)) eqn:D; [|intros _; exact I1].
  rewrite !andb_true_iff in D. destruct D as [D1 _].
  assert (K : forall x, In x (names w tok) -> exists e, key s n x = Some (tok, e)) by (intros x Hx; apply G in Hx; now apply mine_key in Hx).
  intros J. set (s2 := add_confirm _ _) in *.
  assert (Rec : forall m a u, record s2 m a u -> (m = n /\ a = tok /\ u = F) \/ record s m a u).
  { intros m a u [E|[E|E]]; [right; now left|left; inversion E; auto|right; now right]. }
  constructor; try apply I1.
  - exact J.
  - intros m a u x H X. destruct (Rec m a u H) as [[-> [-> ->]]|H']; [|exact (o_covered s1 I1 m a u x H' X)].
    left. simpl. rewrite update_same. apply has_spec in X. rewrite X. lia.
  - intros m a u H L. destruct (Rec m a u H) as [[-> [-> ->]]|H']; [|exact (o_paced s I m a u H' L)].
    unfold one_counted in O. rewrite existsb_exists in O. destruct O as [[[m k] v] [O1 O2]]. rewrite andb_true_iff, !Z.eqb_eq in O2. destruct O2 as [-> ->].
    apply (o_paced s I m tok F); [now left|exact L].
  - (* another attempt that is active has no vote of this node: its key would be there *)
    intros m q Q b V HQ KQ A N S u E. destruct (o_latest s I m q Q b V HQ KQ A N S u E) as [B1 B2]. split; auto.
    intros F' [E'|E']; auto. inversion E'; subst m b F'. exfalso. destruct S as [x [X1 X2]]. destruct (K x X1) as [e Kx].
    destruct (i_kept w tolerated s (o_inv s I) n q Q _ x V HQ A X2) as [g [_ [[z [Kz _]]|[L M]]]]; [congruence|].
    apply (creates_fit _ _ _ D1) in L. unfold fit in L. destruct M as [M|[z [M _]]]; rewrite M in L; discriminate.
  - intros a F' H. destruct (o_stands s I a F' H) as [d Q]. exists d. eapply Nat.lt_le_trans; [exact Q|].
    apply Nat.mul_le_mono_l, filter_more. intros m. apply stands_more; simpl; [apply incl_refl|intros y Y; now right].
Qed.

(* A marker changes. *)
Lemma o_mark s n m : oinv s -> inv (set_mark n m s) ->
  (lossy -> forall a F x, record s n a F -> In x (names w a) -> covered s n x F -> covered (set_mark n m s) n x F) -> oinv (set_mark n m s).
Proof.
  intros I J C. constructor; try apply I; [exact J|]. intros k a F x H X. assert (D := o_covered s I k a F x H X).
  destruct (Nat.eq_dec k n) as [->|Hk].
  - destruct D as [D|[L D]]; [now left|]. apply (C L a F x H X). right. auto.
  - unfold covered. simpl. rewrite update_other by auto. exact D.
Qed.

Lemma o_verify s n : oinv s -> inv (verify w n s) -> oinv (verify w n s).
Proof.
  intros I. unfold verify, quarantine. rewrite Hright.
  assert (Wait : inv (set_mark n (Quarantined (ms w n (now s) + max_ttl w)) s) -> oinv (set_mark n (Quarantined (ms w n (now s) + max_ttl w)) s)).
  { intros J. apply o_mark; auto. intros L a F x H X _. destruct (Hforget L) as [_ [_ [D [A S]]]]. right. split; auto. right. left.
    eexists. split; [simpl; rewrite update_same; reflexivity|].
    destruct (o_paced s I n a F H L) as [m [t [T1 T2]]]. assert (U := us_forward m t (now s) D T1). assert (G := A n m (now s)).
    assert (B := us_ms n (now s)). lia. }
  destruct (mark s n) as [|q|] eqn:M; auto. destruct (q <=? ms w n (now s)) eqn:E; [|destruct (_ <? q); auto].
  apply Z.leb_le in E. intros J. apply o_mark; auto. intros L a F x H X [C|[_ [C|[[z [C1 C2]]|[C _]]]]]; [now left|congruence| |congruence].
  assert (z = q) by congruence. subst z. right. split; auto. right. right. split; [simpl; now rewrite update_same|]. exists (now s). split; [simpl; lia|].
  assert (B := us_ms n (now s)). lia.
Qed.

Lemma o_restart s n keys counters : oinv s -> lossy -> inv (set_counter n counters (set_mark n Unmarked (set_key n keys s))) ->
  oinv (set_counter n counters (set_mark n Unmarked (set_key n keys s))).
Proof.
  intros I L J. constructor; try apply I; [exact J|]. intros k a F x H X. destruct (Nat.eq_dec k n) as [->|Hk].
  - right. split; auto. left. simpl. now rewrite update_same.
  - unfold covered. simpl. rewrite !update_other by auto. exact (o_covered s I k a F x H X).
Qed.

Lemma o_extend s n r R edge : oinv s -> find_round r (rounds s) = Some R -> r_kind R = Extending ->
  inv (exec_extend w n R edge s) -> oinv (exec_extend w n R edge s).
Proof.
  intros I HR KR. assert (Id : r_id R = r) by apply (i_past w tolerated s (o_inv s I) r R HR). unfold exec_extend.
  destruct (forallb _ _); intros J; (eapply o_same; eauto; try reflexivity; [intros m q l [a [H E]]; exists a; split; [now right|exact E]|]);
    intros m q l Q [a [[<-|H] [E1 [E2 [E3 E4]]]]] HQ KQ; simpl in *; try (exists a; now auto); exfalso; assert (Q = R) by congruence; subst; congruence.
Qed.

Lemma o_ask s n r R edge : oinv s -> find_round r (rounds s) = Some R -> r_kind R = Asking ->
  inv (exec_ask w n R edge s) -> oinv (exec_ask w n R edge s).
Proof.
  intros I HR KR. assert (Id : r_id R = r) by apply (i_past w tolerated s (o_inv s I) r R HR). unfold exec_ask.
  destruct (forallb _ _); intros J; (eapply o_same; eauto; try reflexivity; [intros m q l [a [H E]]; exists a; split; [now right|exact E]|]);
    intros m q l Q [a [[<-|H] [E1 [E2 [E3 E4]]]]] HQ KQ; simpl in *; try (exists a; now auto); exfalso; assert (Q = R) by congruence; subst; congruence.
Qed.

Lemma in_order_cons l b Fb : in_order l -> (forall a Fa, In (a, Fa) l -> a <> b -> share w a b -> Fa < Fb) -> in_order ((b, Fb) :: l).
Proof.
  intros O H l1 c Fc l2 a Fa E. destruct l1 as [|p l1]; simpl in E; inversion E; subst; [apply H|]. exact (O l1 c Fc l2 a Fa eq_refl).
Qed.

Lemma o_decide s r k u f s' : oinv s -> inv s' -> decide w r k u f s = Some s' -> oinv s'.
Proof.
  intros I J. unfold decide, electorate. rewrite !Hright. destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate].
  destruct (_ && _ && negb _ && _) eqn:G; [|discriminate]. apply andb_prop in G as [G GL]. apply andb_prop in G as [G G3]. apply andb_prop in G as [_ G2].
  apply Z.leb_le in G2. assert (G4 : u <= limit w R (worth_of R k)) by exact G2. clear G2. rewrite negb_true_iff, is_in_false in G3.
  assert (P : forall c tok v s0, s0 = put c tok v s -> inv s0 -> oinv s0) by (intros c tok v s0 -> H; eapply o_same; eauto; reflexivity).
  destruct (r_kind R) eqn:K, (handle_of (r_client R) (r_token R) (handles s)); try discriminate.
  - destruct (_ || (u <? _)) eqn:T; [discriminate|]. apply orb_false_elim in T as [_ T]. apply Z.ltb_ge in T.
    destruct (f =? 0); [intros E; inversion E; subst; eapply P; eauto|].
    unfold fence_stands. rewrite Hright, orb_false_r. destruct (majority w _ _) eqn:M; [|discriminate]. intros E; inversion E; subst.
    apply (majority_spec w (nearly w Hright)) in M.
    assert (Q : oinv (put (r_client R) (r_token R) u s)) by (eapply P; [reflexivity|]; eapply inv_rest; [..|exact J]; reflexivity).
    constructor; try apply Q; [exact J| |].
    + intros a G [E'|H]; [inversion E'; subst; eauto|]. apply (o_stands s I a G H).
    + apply in_order_cons; [apply (o_order s I)|]. intros a Fa H N S. destruct (o_stands s I a Fa H) as [c Qa]. rewrite (Hsame c (r_client R)) in Qa.
      destruct (majorities_meet _ _ _ Qa M) as [n [_ [Na Nb]]].
      apply (stands_spec w Hright) in Na as [x [U1 [U2 U3]]]. apply (stands_spec w Hright) in Nb as [v [V1 [V2 _]]].
      destruct (o_number s I n _ v V1) as [q [Q' [H1 [H2 [H3 H4]]]]].
      assert (q = r) by (apply (o_one s I q r Q' R); auto). subst q. assert (Q' = R) by congruence. subst Q'.
      assert (A : active w s R (r_ttl R)). { unfold worth_of in G4, GL. rewrite K in G4, GL. rewrite orb_false_r in GL. split; [exact GL|split; [auto|lia]]. }
      destruct (o_latest s I n r R a H4 F K A N S v V1) as [B1 B2]. assert (Fa < v) by (destruct U3 as [<-|U3]; auto). lia.
  - destruct ((_ <=? _) || _); [|discriminate]. intros E; inversion E; subst. eapply P; eauto.
  - intros E; inversion E; subst. eapply P; eauto.
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. eapply P; eauto.
Qed.

Lemma not_ahead s n r R hint edge : permitted w tolerated s (Exec n r hint edge) = true -> find_round r (rounds s) = Some R -> r_kind R = Acquiring ->
  lossy -> forall h, hint = Some h -> exists m, number w s n (r_token R) h <= us w m (now s) + clamp w.
Proof.
  intros P F K L h ->. destruct (Hforget L) as [_ [T _]]. assert (B : negb (paced w s n r (Some h)) = false).
  { apply (never w tolerated s (Exec n r (Some h) edge) NumbersPaced _ P T). intros H. unfold breaks. apply in_or_app. right. apply in_or_app. left. now apply in_when. }
  apply negb_false_iff in B. unfold paced in B. rewrite F, K in B. apply existsb_exists in B as [m [_ B]]. apply Z.leb_le in B. eauto.
Qed.

Lemma o_happen s e s' : oinv s -> permitted w tolerated s e = true -> happen w s e = Some s' -> oinv s'.
Proof.
  intros I P E0. assert (J : inv s') by (eapply inv_happen; eauto using o_inv). revert E0.
  destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl.
  - destruct (existsb (fun R => r_token R =? tok) (rounds s)) eqn:X; [discriminate|]. intros E. eapply o_round; eauto. intros _ Q HQ T. simpl in T.
    assert (existsb (fun R => r_token R =? tok) (rounds s) = true); [|congruence]. apply existsb_exists. exists Q. split; auto. now apply Z.eqb_eq.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E. eapply o_round; eauto. discriminate.
  - intros E. eapply o_round; eauto. discriminate.
  - rewrite Hright. intros E. eapply o_decide; eauto.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst; auto.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst. eapply o_same; eauto; reflexivity.
  - intros E; inversion E; subst. eapply o_same; eauto; try reflexivity. intros R l [L [A B]]. split; [exact L|]. split; auto. intros H. apply A. now right.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. destruct (r_kind R) eqn:K.
    + eapply o_acquire; eauto; [exact (not_executed w tolerated s n r R hint edge Honce P F K)|exact (not_ahead s n r R hint edge P F K)].
    + eapply o_extend; eauto.
    + eapply o_ask; eauto.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. destruct (r_kind R) eqn:K; try discriminate.
    destruct (one_counted s (r_token R) f) eqn:O; [|discriminate]. intros E; inversion E; subst. eapply o_confirm; eauto.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. revert J. unfold repair.
    destruct (_ && _ && _ && _); [|intros _; exact I]. intros J. eapply o_same; eauto; reflexivity.
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. revert J. unfold delete.
    destruct (key s n x) as [[k z]|]; [destruct (_ || _)|]; intros J; eapply o_same; eauto; reflexivity.
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. revert J. unfold shorten.
    destruct (key s n x) as [[k z]|]; [destruct (k =? tok)|]; intros J; eapply o_same; eauto; reflexivity.
  - intros E; inversion E; subst. now apply o_verify.
  - destruct (mark s n); try discriminate. intros E; inversion E; subst. apply o_mark; auto. intros L. destruct (Hforget L) as [T _].
    assert (B := tolerate w tolerated s _ AdmitNothing P (or_introl eq_refl)). congruence.
  - intros E; inversion E; subst. eapply o_same; eauto; reflexivity.
  - intros E; inversion E; subst. destruct m; [apply o_restart; auto; exact (tolerate w tolerated s _ NodesRemember P (or_introl eq_refl))| |];
      assert (B := tolerate w tolerated s _ MarkerHonest P (or_introl eq_refl)); congruence.
  - intros E; inversion E; subst. apply o_mark; auto. intros L a F x H X _. right. split; auto. left. simpl. now rewrite update_same.
Qed.

Lemma o_run tr : forall s s', oinv s -> run w tolerated s tr = Some s' -> oinv s'.
Proof.
  induction tr as [|[t e] tr IH]; simpl; intros s s' I E; [inversion E; subst; auto|].
  destruct (permitted w tolerated (at_time t s) e) eqn:P; [|discriminate]. destruct (t <? now s) eqn:T; [discriminate|]. apply Z.ltb_ge in T.
  destruct (happen w (at_time t s) e) as [s1|] eqn:S; [|discriminate]. eapply IH; [|exact E]. exact (o_happen (at_time t s) e s1 (o_time s t I T) P S).
Qed.

(* FENCES ARE IN ORDER. Of the fences of a run, the newest first, each is larger than all older ones of locks with a name in common. *)
Theorem fences_are_in_order tr s l1 b Fb l2 a Fa : run w tolerated init tr = Some s ->
  fences s = l1 ++ (b, Fb) :: l2 -> In (a, Fa) l2 -> a <> b -> share w a b -> Fa < Fb.
Proof. intros E. exact (o_order s (o_run tr init s oinv_init E) l1 b Fb l2 a Fa). Qed.

End OrderedFences.
