(* Exclusion: two valid locks with a name in common are one and the same, for any number of nodes and
   clients and any interleaving. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* ---- Lists ---- *)

Lemma filter_both (P Q : nat -> bool) l :
  (length (filter P l) + length (filter Q l) <= length l + length (filter (fun n => P n && Q n) l))%nat.
Proof. induction l as [|n l IH]; simpl; [lia|]. destruct (P n), (Q n); simpl; lia. Qed.

(* Two majorities of one list have a node in common. *)
Lemma majorities_meet (P Q : nat -> bool) l :
  (length l < 2 * length (filter P l))%nat -> (length l < 2 * length (filter Q l))%nat ->
  exists n, In n l /\ P n = true /\ Q n = true.
Proof.
  intros HP HQ. assert (B := filter_both P Q l).
  destruct (filter (fun n => P n && Q n) l) as [|n m] eqn:E; simpl in B; [lia|].
  assert (H : In n (filter (fun n => P n && Q n) l)) by (rewrite E; now left).
  apply filter_In in H as [H1 H2]. apply andb_prop in H2 as [H2 H3]. eauto.
Qed.

Lemma filter_more (P Q : nat -> bool) l : (forall n, P n = true -> Q n = true) -> (length (filter P l) <= length (filter Q l))%nat.
Proof.
  intros H. induction l as [|n l IH]; simpl; auto. specialize (H n). destruct (P n); [rewrite H by auto; simpl; lia|]. destruct (Q n); simpl; lia.
Qed.

Lemma is_in_spec x l : is_in x l = true <-> In x l.
Proof.
  unfold is_in. rewrite existsb_exists. split.
  - intros [y [H E]]. apply Z.eqb_eq in E. congruence.
  - intros H. exists x. split; auto. apply Z.eqb_refl.
Qed.
Lemma is_in_false x l : is_in x l = false <-> ~ In x l.
Proof. rewrite <- is_in_spec. destruct (is_in x l); split; congruence. Qed.
Lemma has_spec x l : has x l = true <-> In x l.
Proof.
  unfold has. rewrite existsb_exists. split.
  - intros [y [H E]]. apply Nat.eqb_eq in E. congruence.
  - intros H. exists x. split; auto. apply Nat.eqb_refl.
Qed.
Lemma is_handle_spec c tok h : is_handle c tok h = true <-> h_client h = c /\ h_token h = tok.
Proof. unfold is_handle. rewrite andb_true_iff, Nat.eqb_eq, Z.eqb_eq. tauto. Qed.
Lemma taken_false tok l : taken tok l = false -> forall h, In h l -> h_token h <> tok.
Proof.
  unfold taken. intros T h H E. assert (existsb (fun h => h_token h =? tok) l = true); [|congruence].
  apply existsb_exists. exists h. split; auto. now apply Z.eqb_eq.
Qed.
Lemma update_same {A} (f : nat -> A) n v : update f n v n = v.
Proof. unfold update. now rewrite Nat.eqb_refl. Qed.
Lemma update_other {A} (f : nat -> A) n v m : m <> n -> update f n v m = f m.
Proof. unfold update. intros H. apply Nat.eqb_neq in H. now rewrite H. Qed.

Lemma update_some {A} (f : nat -> nat -> option A) n x v m y z : update f n (update (f n) x v) m y = Some z -> f m y = Some z \/ (m = n /\ y = x /\ v = Some z).
Proof.
  destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same|rewrite update_other by auto; auto].
  destruct (Nat.eq_dec y x) as [->|N]; [rewrite update_same; auto|rewrite update_other by auto; auto].
Qed.

Section Exclusion.
Variable w : world.
Variable tolerated : assumption -> bool.

Definition right := forall m, wrong w m = false.
(* An extension may create a key. That breaks no exclusion. *)
Definition right_but_creating := forall m, m <> ExtensionCreates -> wrong w m = false.
Definition same_nodes := forall c d, members w c = members w d.
(* Nodes may forget if every client uses the guard, no TTL is too long and Admit is quiet. *)
Definition forget_under_guard := tolerated NodesRemember = true ->
  (forall c, guarded w c = true) /\ tolerated TtlBounded = false /\ tolerated AdmitQuiet = false.

Hypothesis Hright : right_but_creating.
Hypothesis Hmono : monotonic w.
Hypothesis Hdrift : within_drift w.
Hypothesis Hsame : same_nodes.
Hypothesis Hkeys : tolerated KeysKept = false.
Hypothesis Hhonest : tolerated MarkerHonest = false.
Hypothesis Hclaim : tolerated ClaimOnce = false.
Hypothesis Hguard : forget_under_guard.

Notation lossy := (tolerated NodesRemember = true).
Notation ms := (ms w).

(* Node n has granted round r, and keeps the keys for at least l ms. *)
Definition vote s n r l := exists a, In a (answers s) /\ a_node a = n /\ a_round a = r /\ a_vote a = true /\ l <= a_left a.
(* Nothing was given up, and a validity of l ms is not over. *)
Definition active s R l := lengths w l = true /\ ~ In (r_token R) (ended s) /\ client_clock w (r_client R) (now s) <= limit w R l.
(* What a node that granted keeps: the key, or a marker that makes it wait for as long. *)
Definition kept s n R l x := exists g, r_start R <= g <= now s /\
  ((exists e, key s n x = Some (r_token R, e) /\ ms n g + l <= e) \/
   (lossy /\ (mark s n = Unmarked \/ exists q, mark s n = Quarantined q /\ ms n g + l <= q))).

Definition supported s c r l := lengths w l = true /\ (length (members w c) < 2 * length (filter (voted s r l) (members w c)))%nat.

Record inv (s : state) : Prop := Inv {
  i_known : forall a, In a (answers s) -> exists R, find_round (a_round a) (rounds s) = Some R;
  i_bound : forall a, In a (answers s) -> a_vote a = true -> lossy -> a_left a <= max_ttl w;
  i_past : forall r R, find_round r (rounds s) = Some R -> r_id R = r /\ r_start R <= now s /\ (lossy -> r_ttl R <= max_ttl w);
  i_kept : forall n r R l x, vote s n r l -> find_round r (rounds s) = Some R -> active s R l -> In x (names w (r_token R)) -> kept s n R l x;
  i_pair : forall n r q R Q l k x, vote s n r l -> vote s n q k -> find_round r (rounds s) = Some R -> find_round q (rounds s) = Some Q ->
      active s R l -> active s Q k -> In x (names w (r_token R)) -> In x (names w (r_token Q)) -> r_token R = r_token Q;
  i_handle : forall h, In h (handles s) -> exists r R l, find_round r (rounds s) = Some R /\ r_token R = h_token h /\
      r_client R = h_client h /\ h_until h <= limit w R l /\ supported s (h_client h) r l;
  i_one : forall h h', In h (handles s) -> In h' (handles s) -> h_token h = h_token h' -> h = h' }.

Lemma inv_init : inv init.
Proof. constructor; simpl; try tauto; try discriminate. Qed.

Lemma voted_vote s r l n : voted s r l n = true -> vote s n r l.
Proof.
  unfold voted. rewrite existsb_exists. intros [a [H E]]. rewrite !andb_true_iff, !Nat.eqb_eq, Z.leb_le in E.
  exists a. intuition.
Qed.

(* A key that was set after the start of a round is alive while the round's validity lasts. *)
Lemma still_alive n R l s g e : active s R l -> r_start R <= g <= now s -> ms n g + l <= e -> ms n (now s) < e.
Proof.
  intros [L [_ A]] H1 H2. unfold limit in A. assert (M := Hmono (r_client R) (r_start R) g ltac:(lia)).
  assert (D := Hdrift (r_client R) n l g (now s) L ltac:(lia) ltac:(lia)). lia.
Qed.

(* Where a name is free and the node may vote, no lock on it is active. *)
Lemma alone s n edge x : inv s -> free w s n edge x = true -> (lossy -> fit s n = true) ->
  forall q Q k, vote s n q k -> find_round q (rounds s) = Some Q -> active s Q k -> In x (names w (r_token Q)) -> False.
Proof.
  intros I F L q Q k V FQ A X. destruct (i_kept s I n q Q k x V FQ A X) as [g [G [[e [K E]]|[Hl M]]]].
  - unfold free, alive in F. rewrite K in F. assert (H := still_alive n Q k s g e A G E). apply Z.ltb_lt in H. rewrite H in F. discriminate.
  - apply L in Hl. unfold fit in Hl. destruct M as [M|[z [M _]]]; rewrite M in Hl; discriminate.
Qed.

Lemma may_create_fit c s n : may_create w c s n = true -> lossy -> fit s n = true.
Proof. unfold may_create. intros H L. destruct (Hguard L) as [G _]. rewrite G in H. exact H. Qed.

(* ---- The parts of a step ---- *)

(* What the invariant does not speak of may change. *)
Lemma inv_rest s s' : now s' = now s -> key s' = key s -> mark s' = mark s -> rounds s' = rounds s -> answers s' = answers s ->
  ended s' = ended s -> handles s' = handles s -> inv s -> inv s'.
Proof.
  destruct s, s'; simpl; intros; subst. destruct H6 as [A B C D E F G].
  constructor; unfold vote, active, kept, supported, voted in *; simpl in *; auto.
Qed.

Lemma inv_time s t : inv s -> now s <= t -> inv (at_time t s).
Proof.
  intros I Ht. assert (M : forall R l, active (at_time t s) R l -> active s R l).
  { intros R l [L [A B]]. split; [exact L|]. split; auto. simpl in B. assert (M := Hmono (r_client R) (now s) t Ht). lia. }
  constructor; try apply I.
  - intros r R H. destruct (i_past s I r R H) as [A [B C]]. simpl. repeat split; auto; lia.
  - intros n r R l x V F A X. destruct (i_kept s I n r R l x V F (M _ _ A) X) as [g [G K]]. exists g. split; [simpl; lia|exact K].
  - intros n r q R Q l k x V1 V2 F1 F2 A1 A2. apply (i_pair s I n r q R Q l k x V1 V2 F1 F2); auto.
Qed.

Lemma inv_round s R s' : inv s -> r_start R = now s -> (lossy -> r_ttl R <= max_ttl w) -> begin_round R s = Some s' -> inv s'.
Proof.
  unfold begin_round. intros I Hs Ht E. destruct (find_round (r_id R) (rounds s)) eqn:F; [discriminate|]. inversion E; subst s'; clear E.
  assert (K : forall r Q, find_round r (rounds s) = Some Q -> find_round r (R :: rounds s) = Some Q).
  { intros r Q H. unfold find_round in *. simpl. destruct (Nat.eqb (r_id R) r) eqn:Er; auto. apply Nat.eqb_eq in Er. rewrite Er in F. congruence. }
  assert (B : forall n r l Q, vote s n r l -> find_round r (R :: rounds s) = Some Q -> find_round r (rounds s) = Some Q).
  { intros n r l Q [a [Ha [_ [Hr _]]]] H. destruct (i_known s I a Ha) as [Q' H']. rewrite Hr in H'. assert (H2 := K _ _ H'). congruence. }
  constructor; simpl.
  - intros a H. apply (i_known s I) in H as [Q H]. eauto.
  - apply (i_bound s I).
  - intros r Q H. unfold find_round in H. simpl in H. destruct (Nat.eqb (r_id R) r) eqn:Er.
    + inversion H; subst Q. apply Nat.eqb_eq in Er. repeat split; auto. lia.
    + apply (i_past s I) in H. exact H.
  - intros n r Q l x V H A X. eapply (i_kept s I n r Q l x); eauto.
  - intros n r q P Q l k x V1 V2 F1 F2. eapply (i_pair s I n r q P Q l k x); eauto.
  - intros h H. destruct (i_handle s I h H) as [r [Q [l [A C]]]]. exists r, Q, l. split; [apply K; exact A|exact C].
  - apply (i_one s I).
Qed.

Lemma vote_more s a n r l : vote s n r l -> vote (add_answer a s) n r l.
Proof. intros [b [H E]]. exists b. split; [now right|exact E]. Qed.

Lemma supported_more s a c r l : supported s c r l -> supported (add_answer a s) c r l.
Proof.
  unfold supported. intros [L H]. split; [exact L|]. eapply Nat.lt_le_trans; [exact H|]. apply Nat.mul_le_mono_l, filter_more.
  intros n V. unfold voted in *. simpl. rewrite V. apply orb_true_r.
Qed.

(* An answer that is no vote. *)
Lemma inv_refusal s a R : inv s -> find_round (a_round a) (rounds s) = Some R -> a_vote a = false -> inv (add_answer a s).
Proof.
  intros I F N. assert (B : forall n r l, vote (add_answer a s) n r l -> vote s n r l).
  { intros n r l [b [[<-|H] E]]; [destruct E as [_ [_ [E _]]]; congruence|exists b; auto]. }
  constructor; simpl; try apply I.
  - intros b [<-|H]; [eauto|apply (i_known s I); auto].
  - intros b [<-|H]; [congruence|apply (i_bound s I); auto].
  - intros n r Q l x V. apply B in V. apply (i_kept s I); auto.
  - intros n r q P Q l k x V1 V2. apply B in V1, V2. apply (i_pair s I n r q); auto.
  - intros h H. destruct (i_handle s I h H) as [r [Q [l [A [C [D [E G]]]]]]]. exists r, Q, l. split; [exact A|]. split; [exact C|]. split; [exact D|]. split; [exact E|]. now apply supported_more.
Qed.

(* A vote of a node that has all keys. *)
Lemma inv_vote s n r R l : inv s -> find_round r (rounds s) = Some R -> (lossy -> l <= max_ttl w) -> (lossy -> fit s n = true) ->
  (forall x, In x (names w (r_token R)) -> exists e, key s n x = Some (r_token R, e) /\ ms n (now s) + l <= e) ->
  inv (add_answer (Answer n r true l) s).
Proof.
  intros I F Hl Hf K. set (s' := add_answer _ s). destruct (i_past s I r R F) as [_ [P _]].
  assert (B : forall m q k, vote s' m q k -> (m = n /\ q = r /\ k <= l) \/ vote s m q k).
  { intros m q k [b [[<-|H] [E1 [E2 [E3 E4]]]]]; simpl in *; [left; auto|right; exists b; auto]. }
  assert (S : forall q Q k x, vote s n q k -> find_round q (rounds s) = Some Q -> active s Q k ->
    In x (names w (r_token Q)) -> In x (names w (r_token R)) -> r_token Q = r_token R).
  { intros q Q k x V FQ A X Y. destruct (K x Y) as [e [K1 _]]. destruct (i_kept s I n q Q k x V FQ A X) as [g [G [[e' [K2 _]]|[L M]]]]; [congruence|].
    apply Hf in L. unfold fit in L. destruct M as [M|[z [M _]]]; rewrite M in L; discriminate. }
  constructor; try apply I.
  - intros b [<-|H]; [eauto|apply (i_known s I); auto].
  - intros b [<-|H]; [auto|apply (i_bound s I); auto].
  - intros m q Q k x V FQ A X. destruct (B _ _ _ V) as [[-> [-> Hk]]|V']; [|apply (i_kept s I m q); auto].
    assert (Q = R) by (simpl in FQ; congruence). subst Q. destruct (K x X) as [e [K1 K2]]. exists (now s). split; [simpl; lia|]. left. exists e. split; auto. lia.
  - intros m q p Q0 P0 k j x V1 V2 F1 F2 A1 A2 X1 X2.
    destruct (B _ _ _ V1) as [[-> [-> H1]]|V1']; destruct (B _ _ _ V2) as [[E [-> H2]]|V2']; try subst m.
    + simpl in *. congruence.
    + assert (Q0 = R) by (simpl in F1; congruence). subst Q0. symmetry. apply (S p P0 j x); auto.
    + assert (P0 = R) by (simpl in F2; congruence). subst P0. apply (S q Q0 k x); auto.
    + apply (i_pair s I m q p Q0 P0 k j x); auto.
  - intros h H. destruct (i_handle s I h H) as [q [Q [k [A [C [D [E G]]]]]]]. exists q, Q, k. split; [exact A|]. split; [exact C|]. split; [exact D|]. split; [exact E|]. now apply supported_more.
Qed.

(* A node writes keys, and keeps those of active votes. *)
Lemma inv_keys s n f : inv s ->
  (forall q Q k x e, vote s n q k -> find_round q (rounds s) = Some Q -> active s Q k -> In x (names w (r_token Q)) ->
    key s n x = Some (r_token Q, e) -> ms n (now s) < e -> exists e', f x = Some (r_token Q, e') /\ e <= e') ->
  inv (set_key n f s).
Proof.
  intros I H. constructor; try apply I.
  - intros m q Q k x V FQ A X. destruct (i_kept s I m q Q k x V FQ A X) as [g [G [[e [K1 K2]]|K]]]; exists g; (split; [exact G|]); [|right; exact K].
    left. simpl. destruct (Nat.eq_dec m n) as [->|Hm]; [rewrite update_same|rewrite update_other by auto; eauto].
    destruct (H q Q k x e V FQ A X K1 (still_alive n Q k s g e A G K2)) as [e' [F1 F2]]. exists e'. split; auto. lia.
Qed.

Lemma inv_mark s n m : inv s ->
  (lossy -> forall q Q k x, vote s n q k -> find_round q (rounds s) = Some Q -> active s Q k -> In x (names w (r_token Q)) -> kept s n Q k x ->
    kept (set_mark n m s) n Q k x) ->
  inv (set_mark n m s).
Proof.
  intros I H. constructor; try apply I.
  - intros m' q Q k x V FQ A X. assert (K := i_kept s I m' q Q k x V FQ A X). destruct (Nat.eq_dec m' n) as [->|Hm].
    + destruct (tolerated NodesRemember) eqn:L; [eapply H; eauto|].
      destruct K as [g [G [K|[K _]]]]; [exists g; split; auto|congruence].
    + destruct K as [g [G [K|K]]]; exists g; split; auto. right. simpl. rewrite update_other by auto. exact K.
Qed.

Lemma inv_end s tok : inv s -> inv (add_end tok s).
Proof.
  intros I. assert (M : forall R l, active (add_end tok s) R l -> active s R l).
  { intros R l [L [A B]]. split; [exact L|]. split; auto. intros H. apply A. now right. }
  constructor; try apply I.
  - intros n r R l x V F A X. exact (i_kept s I n r R l x V F (M _ _ A) X).
  - intros n r q R Q l k x V1 V2 F1 F2 A1 A2. apply (i_pair s I n r q R Q l k x); auto.
Qed.

Lemma inv_handles s l : inv s ->
  (forall h, In h l -> exists r R k, find_round r (rounds s) = Some R /\ r_token R = h_token h /\ r_client R = h_client h /\
    h_until h <= limit w R k /\ supported s (h_client h) r k) ->
  (forall h h', In h l -> In h' l -> h_token h = h_token h' -> h = h') -> inv (set_handles l s).
Proof.
  intros I H1 H2. constructor; try apply I; auto.
Qed.

Lemma inv_without s c tok : inv s -> inv (set_handles (without c tok (handles s)) s).
Proof.
  intros I. apply inv_handles; auto; unfold without.
  - intros h H. apply filter_In in H as [H _]. apply (i_handle s I h H).
  - intros h h' H H'. apply filter_In in H as [H _]. apply filter_In in H' as [H' _]. apply (i_one s I); auto.
Qed.

(* A client's decision. The only other handle of the token may be the one that is replaced. *)
Lemma inv_put s c tok u r R k : inv s -> find_round r (rounds s) = Some R -> r_token R = tok -> r_client R = c -> u <= limit w R k -> supported s c r k ->
  (forall h, In h (handles s) -> h_token h = tok -> h_client h = c) -> inv (put c tok u s).
Proof.
  intros I F Ht Hc Hu Hs Ho. unfold put. apply inv_handles; auto.
  - intros h [<-|H]; [exists r, R, k; auto|]. apply filter_In in H as [H _]. apply (i_handle s I h H).
  - assert (N : forall h, In h (without c tok (handles s)) -> h_token h <> tok).
    { intros h H E. apply filter_In in H as [H N]. assert (is_handle c tok h = true) by (apply is_handle_spec; auto). rewrite H0 in N. discriminate. }
    intros h h' [<-|H] [<-|H'] E; auto; simpl in E; [exfalso; apply (N h'); auto|exfalso; apply (N h); auto|].
    apply filter_In in H as [H _]. apply filter_In in H' as [H' _]. apply (i_one s I); auto.
Qed.

(* ---- What each event does ---- *)

Lemma majority_spec l P : majority w l P = true -> (length l < 2 * length (filter P l))%nat.
Proof. unfold majority. rewrite Hright by discriminate. simpl. rewrite orb_false_r. apply Nat.ltb_lt. Qed.

Lemma find_id s r R : inv s -> find_round r (rounds s) = Some R -> r_id R = r.
Proof. intros I F. apply (i_past s I r R F). Qed.

Lemma alive_key s n edge x k e : alive w s n edge x = Some (k, e) -> key s n x = Some (k, e).
Proof. unfold alive. destruct (key s n x) as [[k' e']|]; [|discriminate]. destruct (_ || _); congruence. Qed.

Lemma mine_key s n edge tok x : mine w s n edge tok x = true -> exists e, key s n x = Some (tok, e).
Proof.
  unfold mine. destruct (alive w s n edge x) as [[k e]|] eqn:A; [|discriminate].
  intros E. apply Z.eqb_eq in E. subst k. exists e. now apply alive_key in A.
Qed.

(* Extensions create no key, unless that is the mistake. *)
Lemma extend_keeps s n R edge m x a e : wrong w ExtensionCreates = false ->
  key (exec_extend w n R edge s) m x = Some (a, e) -> exists e', key s m x = Some (a, e').
Proof.
  intros W. unfold exec_extend. rewrite W. destruct (forallb _ _) eqn:G; simpl; [|eauto]. rewrite forallb_forall in G. intros H.
  destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in H|rewrite update_other in H by auto; eauto].
  destruct (has x (names w (r_token R))) eqn:Hx; [|eauto]. apply has_spec in Hx. apply G in Hx. rewrite orb_false_r in Hx.
  apply mine_key in Hx as [e' K]. unfold lengthened in H. rewrite K in *. inversion H; subst. eauto.
Qed.

Lemma inv_exec_acquire s n r R hint edge : inv s -> find_round r (rounds s) = Some R -> inv (exec_acquire w n R hint edge s).
Proof.
  intros I F. unfold exec_acquire. assert (Id := find_id s r R I F).
  destruct (forallb (free w s n edge) (names w (r_token R)) && may_create w (r_client R) s n) eqn:G.
  - apply andb_prop in G as [G1 G2]. rewrite forallb_forall in G1.
    apply (inv_rest (add_answer (Answer n (r_id R) true (r_ttl R))
        (set_key n (fun x => if has x (names w (r_token R)) then Some (r_token R, ms n (now s) + r_ttl R) else key s n x) s)));
      try (destruct hint; reflexivity).
    rewrite Id. apply inv_vote with R; auto.
    + apply inv_keys; auto. intros q Q k x e V FQ A X K _. destruct (has x (names w (r_token R))) eqn:H.
      * apply has_spec in H. exfalso. eapply (alone s n edge x); eauto. exact (may_create_fit _ _ _ G2).
      * exists e. split; auto. lia.
    + apply (i_past s I r R F).
    + intros L. apply (may_create_fit _ _ _ G2 L).
    + intros x X. simpl. rewrite update_same. apply has_spec in X. rewrite X. exists (ms n (now s) + r_ttl R). split; auto. lia.
  - apply inv_refusal with R; auto. simpl. now rewrite Id.
Qed.

Lemma inv_exec_extend s n r R edge : inv s -> find_round r (rounds s) = Some R -> inv (exec_extend w n R edge s).
Proof.
  intros I F. unfold exec_extend. assert (Id := find_id s r R I F).
  destruct (forallb _ (names w (r_token R))) eqn:G; [|apply inv_refusal with R; auto; simpl; now rewrite Id].
  rewrite forallb_forall in G.
  (* a key that is alive has the token, also if the extension creates what is missing *)
  assert (K : forall x k e, In x (names w (r_token R)) -> key s n x = Some (k, e) -> ms n (now s) < e -> k = r_token R).
  { intros x k e X K L. apply G in X. apply orb_prop in X as [X|X]; [apply mine_key in X as [e' X]; congruence|].
    apply andb_prop in X as [_ X]. unfold free, alive in X. rewrite K in X. apply Z.ltb_lt in L. rewrite L in X. discriminate. }
  set (f := fun x => if has x (names w (r_token R)) then lengthened w s n R x else key s n x).
  assert (J : inv (set_key n f s)).
  { apply inv_keys; auto. intros q Q k x e V FQ A X KQ L. unfold f. destruct (has x (names w (r_token R))) eqn:H.
    - apply has_spec in H. rewrite (K x _ e H KQ L) in *. unfold lengthened. rewrite KQ, Hright by discriminate. eexists. split; [reflexivity|lia].
    - exists e. split; auto. lia. }
  destruct (may_vote w (r_client R) s n) eqn:V; [|apply inv_refusal with R; auto; simpl; now rewrite Id].
  rewrite Id. apply inv_vote with R; auto.
  - apply (i_past s I r R F).
  - unfold may_vote in V. rewrite Hright, orb_false_r in V by discriminate. intros L. exact (may_create_fit _ _ _ V L).
  - intros x X. simpl. rewrite update_same. unfold f. apply has_spec in X. rewrite X. unfold lengthened.
    destruct (key s n x) as [[k old]|]; rewrite ?Hright by discriminate; eexists; (split; [reflexivity|lia]).
Qed.

Lemma left_all_le s n tok x : In x (names w tok) -> left_all w s n tok <= left_of w s n x.
Proof. unfold left_all. induction (names w tok) as [|y l IH]; simpl; [tauto|]. intros [->|H]; [lia|]. apply IH in H. lia. Qed.
Lemma left_all_max s n tok : left_all w s n tok <= max_ttl w.
Proof. unfold left_all. induction (names w tok); simpl; lia. Qed.

Lemma inv_exec_ask s n r R edge : inv s -> find_round r (rounds s) = Some R -> inv (exec_ask w n R edge s).
Proof.
  intros I F. unfold exec_ask. assert (Id := find_id s r R I F).
  destruct (forallb _ (names w (r_token R))) eqn:G; [|apply inv_refusal with R; auto; simpl; now rewrite Id].
  destruct (may_vote w (r_client R) s n) eqn:V; [|apply inv_refusal with R; auto; simpl; now rewrite Id].
  rewrite forallb_forall in G. rewrite Id. apply inv_vote with R; auto.
  - intros _. apply left_all_max.
  - unfold may_vote in V. rewrite Hright, orb_false_r in V by discriminate. intros L. exact (may_create_fit _ _ _ V L).
  - intros x X. destruct (mine_key _ _ _ _ _ (G x X)) as [e K]. exists e. split; auto.
    apply (left_all_le s n) in X. unfold left_of in X. rewrite K in X. lia.
Qed.

Lemma inv_repair s n r R edge : inv s -> find_round r (rounds s) = Some R -> inv (repair w n R edge s).
Proof.
  intros I F. unfold repair. rewrite Hright, orb_false_r by discriminate. destruct (_ && _) eqn:G; auto. apply andb_prop in G as [_ G].
  apply inv_keys; auto. intros q Q k x e V FQ A X K _.
  destruct (has x (names w (r_token R)) && free w s n edge x) eqn:H.
  - apply andb_prop in H as [_ H]. exfalso. eapply (alone s n edge x); eauto.
  - exists e. split; auto. lia.
Qed.

Lemma inv_delete s n x tok : inv s -> In tok (ended s) -> inv (delete w n x tok s).
Proof.
  intros I E. unfold delete. destruct (key s n x) as [[k z]|] eqn:K; auto. rewrite Hright, orb_false_r by discriminate. destruct (k =? tok) eqn:T; auto.
  apply Z.eqb_eq in T. subst k. apply inv_keys; auto. intros q Q k y e V FQ [_ [A _]] X KQ.
  destruct (Nat.eq_dec y x) as [->|N]; [rewrite K in KQ; inversion KQ; subst; tauto|]. rewrite update_other by auto. exists e. split; auto. lia.
Qed.

Lemma inv_shorten s n x tok ttl : inv s -> In tok (ended s) -> inv (shorten w n x tok ttl s).
Proof.
  intros I E. unfold shorten. destruct (key s n x) as [[k z]|] eqn:K; auto. destruct (k =? tok) eqn:T; auto.
  apply Z.eqb_eq in T. subst k. apply inv_keys; auto. intros q Q k y e V FQ [_ [A _]] X KQ.
  destruct (Nat.eq_dec y x) as [->|N]; [rewrite K in KQ; inversion KQ; subst; tauto|]. rewrite update_other by auto. exists e. split; auto. lia.
Qed.

Lemma inv_verify s n : inv s -> inv (verify w n s).
Proof.
  intros I. unfold verify, quarantine. rewrite Hright by discriminate.
  assert (Wait : inv (set_mark n (Quarantined (ms n (now s) + max_ttl w)) s)).
  { apply inv_mark; auto. intros L q Q k x V FQ A X [g [G [K|K]]]; [exists g; split; auto|].
    destruct (i_past s I q Q FQ) as [_ [P _]]. exists (now s). split; [simpl; lia|]. right. split; auto. right.
    eexists. split; [simpl; rewrite update_same; reflexivity|]. destruct V as [a [Ha [_ [_ [Hv Hl]]]]]. assert (B := i_bound s I a Ha Hv L). lia. }
  destruct (mark s n) as [|z|] eqn:M; auto. destruct (z <=? ms n (now s)) eqn:E; [|destruct (_ <? z); auto]. apply Z.leb_le in E. apply inv_mark; auto.
  intros L q Q k x V FQ A X [g [G [K|[_ [K|[z' [K1 K2]]]]]]]; [exists g; split; auto|congruence|].
  assert (z' = z) by congruence. subst. assert (H := still_alive n Q k s g z A G K2). lia.
Qed.

Lemma inv_admit s n : inv s -> (lossy -> quiet s = true) -> inv (set_mark n Fit s).
Proof.
  intros I H. apply inv_mark; auto. intros L q Q k x V FQ [_ [A _]] X K. exfalso. apply A, is_in_spec.
  apply H in L. unfold quiet in L. rewrite forallb_forall in L. apply L. unfold find_round in FQ. now apply find_some in FQ.
Qed.

Lemma inv_restart s n keys counters : inv s -> lossy -> inv (set_counter n counters (set_mark n Unmarked (set_key n keys s))).
Proof.
  intros I L. apply (inv_rest (set_mark n Unmarked (set_key n keys s))); try reflexivity. constructor; try apply I.
  intros m q Q k x V FQ A X. destruct (i_kept s I m q Q k x V FQ A X) as [g [G K]]. exists g. split; auto.
  destruct (Nat.eq_dec m n) as [->|N].
  - right. split; auto. left. simpl. now rewrite update_same.
  - simpl. rewrite !update_other by auto. exact K.
Qed.

(* A node drops a key that has expired: no active vote rests on it. *)
Lemma inv_vanish s n x : inv s -> free w s n false x = true -> inv (set_key n (update (key s n) x None) s).
Proof.
  intros I F. constructor; try apply I. intros m q Q k y V FQ A X.
  destruct (i_kept s I m q Q k y V FQ A X) as [g [G [[e [K E]]|K]]]; exists g; (split; [exact G|]); [|right; exact K].
  left. exists e. split; [|exact E]. simpl. destruct (Nat.eq_dec m n) as [->|Hm]; [rewrite update_same|rewrite update_other by auto; exact K].
  destruct (Nat.eq_dec y x) as [->|N]; [exfalso|rewrite update_other by auto; exact K].
  unfold free, alive in F. rewrite K in F. assert (H := still_alive n Q k s g e A G E). apply Z.ltb_lt in H. rewrite H in F. discriminate.
Qed.

Lemma inv_decide s r k u f s' : inv s -> resumes_again s r = false -> decide w r k u f s = Some s' -> inv s'.
Proof.
  intros I C. unfold decide, electorate. unfold resumes_again in C.
  destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. rewrite !Hright by discriminate. set (l := worth_of R k).
  destruct (majority w (members w (r_client R)) (voted s r l) && (u <=? limit w R l) && negb (is_in (r_token R) (ended s)) && _) eqn:G; [|discriminate].
  apply andb_prop in G as [G GL]. apply andb_prop in G as [G _]. apply andb_prop in G as [G1 G2]. apply majority_spec in G1. apply Z.leb_le in G2.
  assert (GS : lengths w l = true -> supported s (r_client R) r l) by (intros L; split; [exact L|exact G1]).
  assert (one : forall h, handle_of (r_client R) (r_token R) (handles s) = Some h -> In h (handles s) /\ h_client h = r_client R /\ h_token h = r_token R).
  { intros h H. unfold handle_of in H. apply find_some in H as [H1 H2]. apply is_handle_spec in H2. tauto. }
  assert (P : forall h, lengths w l = true -> handle_of (r_client R) (r_token R) (handles s) = Some h -> inv (put (r_client R) (r_token R) u s)).
  { intros h L H. destruct (one h H) as [H1 [H2 H3]]. eapply inv_put; eauto. intros h' H' T. assert (h' = h) by (apply (i_one s I); auto; congruence). congruence. }
  assert (P0 : lengths w l = true -> taken (r_token R) (handles s) = false -> inv (put (r_client R) (r_token R) u s)).
  { intros L T. eapply inv_put; eauto. intros h H E. exfalso. exact (taken_false _ _ T h H E). }
  revert GL. destruct (r_kind R); destruct (handle_of (r_client R) (r_token R) (handles s)) as [h|] eqn:H; try discriminate; intros GL; rewrite ?orb_false_r in GL.
  - destruct (taken (r_token R) (handles s)) eqn:T; [discriminate|]. simpl. destruct (_ || _); [discriminate|].
    destruct (f =? 0); [intros E; inversion E; subst; auto|]. destruct (fence_stands w s (r_client R) (r_token R) f); [|discriminate].
    intros E; inversion E; subst. apply (inv_rest (put (r_client R) (r_token R) u s)); auto.
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. destruct (one h eq_refl) as [H1 [H2 H3]].
    destruct (Z.max_spec u (h_until h)) as [[_ ->]|[_ ->]]; [|eapply P; eauto].
    destruct (i_handle s I h H1) as [q [Q [j [X1 [X2 [X3 [X4 X5]]]]]]].
    apply (inv_put s (r_client R) (r_token R) (h_until h) q Q j); auto; try congruence.
    intros h' H' T. assert (h' = h) by (apply (i_one s I); auto; congruence). congruence.
  - (* a Check shortens what the handle rests on already *)
    intros E; inversion E; subst. destruct (one h eq_refl) as [H1 [H2 H3]]. destruct (i_handle s I h H1) as [q [Q [j [X1 [X2 [X3 [X4 X5]]]]]]].
    apply (inv_put s (r_client R) (r_token R) (Z.min u (h_until h)) q Q j); auto; try congruence; [lia|]. intros h' H' T. assert (h' = h) by (apply (i_one s I); auto; congruence). congruence.
  - destruct (is_in (r_token R) (claims s)); [|discriminate]. intros E; inversion E; subst. auto.
Qed.

Lemma tolerate s e a : permitted w tolerated s e = true -> In a (breaks w s e) -> tolerated a = true.
Proof. unfold permitted. rewrite forallb_forall. auto. Qed.
Lemma never s e a b : permitted w tolerated s e = true -> tolerated a = false -> (b = true -> In a (breaks w s e)) -> b = false.
Proof. intros P T H. destruct b; auto. apply (tolerate s e a) in P; auto. congruence. Qed.
Lemma in_when b a : b = true -> In a (when b a).
Proof. intros ->. now left. Qed.

Lemma inv_happen s e s' : inv s -> permitted w tolerated s e = true -> happen w s e = Some s' -> inv s'.
Proof.
  intros I P. destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl.
  - destruct (existsb _ _); [discriminate|]. apply inv_round; auto. simpl. intros L. destruct (Hguard L) as [_ [T _]].
    apply Z.ltb_ge. exact (never s _ TtlBounded _ P T (in_when _ _)).
  - destruct (valid _ _ _ _ _); [|discriminate]. apply inv_round; auto. simpl. intros L. destruct (Hguard L) as [_ [T _]].
    apply Z.ltb_ge. exact (never s _ TtlBounded _ P T (in_when _ _)).
  - apply inv_round; auto. simpl. intros _. lia.
  - rewrite Hright by discriminate. apply inv_decide; auto. exact (never s _ ClaimOnce _ P Hclaim (in_when _ _)).
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst; auto.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst.
    apply (inv_rest (set_handles (without c tok (handles s)) s)); auto. now apply inv_without.
  - intros E; inversion E; subst. now apply inv_end.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst.
    destruct (r_kind R); [apply inv_exec_acquire with r|apply inv_exec_extend with r|apply inv_exec_ask with r]; auto.
  - destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); try discriminate. destruct (one_counted s (r_token R) f); [|discriminate]. intros E; inversion E; subst.
    unfold confirm. simpl. destruct (_ || _); auto. destruct (_ && _); apply (inv_rest s); auto.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. apply inv_repair with r; auto.
  - rewrite Hright, orb_false_r by discriminate. destruct (is_in tok (ended s)) eqn:T; [|discriminate]. apply is_in_spec in T. intros E; inversion E; subst. apply (inv_rest (delete w n x tok s)); auto. now apply inv_delete.
  - destruct (is_in tok (ended s)) eqn:T; [|discriminate]. apply is_in_spec in T. intros E; inversion E; subst. now apply inv_shorten.
  - intros E; inversion E; subst. now apply inv_verify.
  - destruct (mark s n); try discriminate. intros E; inversion E; subst. apply inv_admit; auto. intros L. destruct (Hguard L) as [_ [_ T]].
    apply negb_false_iff. apply (never s _ AdmitQuiet _ P T). intros B. right. now apply in_when.
  - intros E; inversion E; subst. apply inv_vanish; auto. apply negb_false_iff. exact (never s _ KeysKept _ P Hkeys (in_when _ _)).
  - intros E; inversion E; subst. destruct m; [apply inv_restart; auto; exact (tolerate s _ NodesRemember P (or_introl eq_refl))| |];
      assert (B := tolerate s _ MarkerHonest P (or_introl eq_refl)); congruence.
  - intros E; inversion E; subst. apply inv_mark; auto. intros L q Q k x V FQ A X [g [G _]]. exists g. split; [exact G|]. right. split; auto. left.
    simpl. now rewrite update_same.
Qed.

Lemma inv_step s te s' : inv s -> permitted w tolerated (at_time (fst te) s) (snd te) = true -> step w s te = Some s' -> inv s'.
Proof.
  destruct te as [t e]. unfold step. intros I P. destruct (t <? now s) eqn:E; [discriminate|]. apply Z.ltb_ge in E.
  apply inv_happen; [now apply inv_time|exact P].
Qed.

Lemma inv_run tr : forall s s', inv s -> run w tolerated s tr = Some s' -> inv s'.
Proof.
  induction tr as [|e tr IH]; simpl; intros s s' I E; [inversion E; subst; auto|].
  destruct (permitted w tolerated (at_time (fst e) s) (snd e)) eqn:P; [|discriminate]. destruct (step w s e) as [s1|] eqn:S; [|discriminate].
  eapply IH; [|exact E]. eapply inv_step; eauto.
Qed.

Lemma valid_handle s t c tok : valid w s t c tok = true ->
  exists h, In h (handles s) /\ h_client h = c /\ h_token h = tok /\ ~ In tok (ended s) /\ client_clock w c t <= h_until h.
Proof.
  unfold valid. destruct (handle_of c tok (handles s)) as [h|] eqn:H; [|discriminate]. unfold handle_of in H.
  apply find_some in H as [H1 H2]. apply is_handle_spec in H2 as [H2 H3].
  rewrite andb_true_iff, negb_true_iff, is_in_false, Z.leb_le. intros [H4 H5]. exists h. auto.
Qed.

(* Two rounds that majorities of nodes support have one token, while both are active. *)
Lemma supported_meet s r R l q Q k x : inv s -> find_round r (rounds s) = Some R -> find_round q (rounds s) = Some Q ->
  supported s (r_client R) r l -> supported s (r_client Q) q k -> active s R l -> active s Q k ->
  In x (names w (r_token R)) -> In x (names w (r_token Q)) -> r_token R = r_token Q.
Proof.
  intros I F1 F2 [_ S1] [_ S2] A1 A2 X1 X2. rewrite (Hsame (r_client Q) (r_client R)) in S2. destruct (majorities_meet _ _ _ S1 S2) as [n [_ [N1 N2]]].
  apply voted_vote in N1, N2. exact (i_pair s I n r q R Q l k x N1 N2 F1 F2 A1 A2 X1 X2).
Qed.

(* A handle that is not over is one of an active round. *)
Lemma handle_active s t h r R l : r_token R = h_token h -> r_client R = h_client h -> h_until h <= limit w R l -> supported s (h_client h) r l ->
  ~ In (h_token h) (ended s) -> client_clock w (h_client h) t <= h_until h -> active (at_time t s) R l.
Proof. intros R2 R3 R4 [Rl _] N C. unfold active. simpl. rewrite R2, R3. repeat split; auto. lia. Qed.

(* EXCLUSION. After any run, and at any later instant before the next event, two valid locks with a name in common
   are the same lock, in the hands of the same client. *)
Theorem exclusion tr s t c a d b x : run w tolerated init tr = Some s -> now s <= t ->
  valid w s t c a = true -> valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof.
  intros E Ht Va Vb Xa Xb. assert (I := inv_run tr init s inv_init E). apply (inv_time s t) in I; auto.
  apply valid_handle in Va as [h [H1 [H2 [H3 [H4 H5]]]]]. apply valid_handle in Vb as [g [G1 [G2 [G3 [G4 G5]]]]].
  destruct (i_handle _ I h H1) as [r [R [l [R1 [R2 [R3 [R4 R5]]]]]]].
  destruct (i_handle _ I g G1) as [q [Q [k [Q1 [Q2 [Q3 [Q4 Q5]]]]]]].
  subst a b c d. assert (T : h_token h = h_token g).
  { rewrite <- R2, <- Q2. apply (supported_meet (at_time t s) r R l q Q k x); auto; rewrite ?R2, ?R3, ?Q2, ?Q3; auto; eapply handle_active; eauto. }
  split; [congruence|]. assert (h = g) by (apply (i_one _ I); auto). congruence.
Qed.

(* What a client had when it detached keeps others out until its validity is over, unless the token has ended. *)

(* Rounds and answers are never forgotten. *)
Definition grows s s' := (forall r R, find_round r (rounds s) = Some R -> find_round r (rounds s') = Some R) /\ incl (answers s) (answers s').

Lemma begin_grows R s s' : begin_round R s = Some s' -> grows s s'.
Proof.
  unfold begin_round. destruct (find_round (r_id R) (rounds s)) eqn:F; [discriminate|]. intros E; inversion E; subst. split; [|apply incl_refl].
  intros r Q H. unfold find_round in *. simpl. destruct (Nat.eqb (r_id R) r) eqn:Er; auto. apply Nat.eqb_eq in Er. rewrite Er in F. congruence.
Qed.

Lemma happen_grows s e s' : happen w s e = Some s' -> grows s s'.
Proof.
  intros E. destruct e; simpl in E;
    try (repeat match type of E with context [if ?b then _ else _] => destruct b; try discriminate E end; now apply begin_grows in E);
    unfold decide, delete, shorten, verify, repair, exec_extend, exec_ask, exec_acquire, confirm, count in E; rewrite ?Hright in E by discriminate;
    repeat match type of E with context [match ?y with _ => _ end] => destruct y; try discriminate E end; inversion E; subst;
    (split; [auto|simpl; try apply incl_refl; intros y Y; now right]).
Qed.

Lemma run_grows tr : forall s s', run w tolerated s tr = Some s' -> grows s s'.
Proof.
  induction tr as [|[t e] tr IH]; simpl; intros s s' E; [inversion E; subst; split; [auto|apply incl_refl]|].
  destruct (permitted w tolerated (at_time t s) e); [|discriminate]. destruct (t <? now s); [discriminate|].
  destruct (happen w (at_time t s) e) as [s1|] eqn:S; [|discriminate].
  destruct (happen_grows (at_time t s) e s1 S) as [A B]. destruct (IH s1 s' E) as [A' B']. split; [auto|exact (incl_tran B B')].
Qed.

Lemma supported_grows s s' c r l : grows s s' -> supported s c r l -> supported s' c r l.
Proof.
  intros [_ G] [L H]. split; [exact L|]. eapply Nat.lt_le_trans; [exact H|]. apply Nat.mul_le_mono_l, filter_more.
  intros n V. unfold voted in *. rewrite existsb_exists in *. destruct V as [y [Y1 Y2]]. exists y. split; [apply G; exact Y1|exact Y2].
Qed.

Theorem claims_exclude p q s1 s t c a h d b x : run w tolerated init p = Some s1 -> handle_of c a (handles s1) = Some h ->
  run w tolerated s1 q = Some s -> now s <= t -> ~ In a (ended s) -> client_clock w c t <= h_until h ->
  valid w s t d b = true -> In x (names w a) -> In x (names w b) -> a = b.
Proof.
  intros E0 Hh E Ht Na Ca Vb Xa Xb. assert (I0 := inv_run p init s1 inv_init E0). assert (G := run_grows q s1 s E).
  assert (I := inv_run q s1 s I0 E). apply (inv_time s t) in I; auto. unfold handle_of in Hh. apply find_some in Hh as [H1 H2]. apply is_handle_spec in H2 as [H2 H3].
  destruct (i_handle s1 I0 h H1) as [r [R [l [R1 [R2 [R3 [R4 R5]]]]]]]. apply (proj1 G) in R1. apply (supported_grows s1 s _ _ _ G) in R5.
  apply valid_handle in Vb as [g [G1 [G2 [G3 [G4 G5]]]]]. destruct (i_handle _ I g G1) as [u [Q [k [Q1 [Q2 [Q3 [Q4 Q5]]]]]]].
  subst a b c d. rewrite <- R2, <- Q2. apply (supported_meet (at_time t s) r R l u Q k x); auto; rewrite ?R2, ?R3, ?Q2, ?Q3; auto; eapply handle_active; eauto.
Qed.

(* A valid lock is kept by a majority of its client's nodes, on every name, whatever releases, undos and repairs
   were executed: each such node has the key, alive, or does not vote before the lock's validity is over. *)
Theorem held tr s t c a x : run w tolerated init tr = Some s -> now s <= t -> valid w s t c a = true -> In x (names w a) ->
  exists P, (length (members w c) < 2 * length (filter P (members w c)))%nat /\
    forall n, P n = true -> (exists e, key s n x = Some (a, e) /\ ms n t < e) \/ lossy /\ mark s n <> Fit.
Proof.
  intros E Ht Va Xa. assert (I := inv_run tr init s inv_init E). apply (inv_time s t) in I; auto.
  apply valid_handle in Va as [h [H1 [H2 [H3 [H4 H5]]]]].
  destruct (i_handle _ I h H1) as [r [R [l [R1 [R2 [R3 [R4 R5]]]]]]]. rewrite H2 in *. rewrite H3 in *.
  destruct R5 as [Rl R5]. exists (voted (at_time t s) r l). split; [exact R5|].
  intros n N. apply voted_vote in N.
  assert (A : active (at_time t s) R l) by (unfold active; simpl; rewrite R2, R3; split; [exact Rl|split; auto; lia]). rewrite <- R2 in Xa.
  destruct (i_kept _ I n r R l x N R1 A Xa) as [g [G [[e [K1 K2]]|[L M]]]].
  - left. exists e. rewrite R2 in K1. split; auto. exact (still_alive n R l _ g e A G K2).
  - right. split; auto. simpl in M. destruct M as [M|[z [M _]]]; rewrite M; discriminate.
Qed.

(* ---- A hold is one interval ---- *)

Definition stays (c : nat) (a : Z) (e : event) := match e with Detach d b => negb (Nat.eqb c d && (a =? b)) | _ => true end.

Local Arguments handle_of : simpl never.

Lemma handle_same c tok u l : handle_of c tok (Handle c tok u :: l) = Some (Handle c tok u).
Proof. unfold handle_of, is_handle. simpl. now rewrite Nat.eqb_refl, Z.eqb_refl. Qed.

Lemma handle_without c tok d b l : negb (Nat.eqb c d && (tok =? b)) = true -> handle_of c tok (without d b l) = handle_of c tok l.
Proof.
  intros N. unfold handle_of, without. induction l as [|h l IH]; simpl; auto. destruct (is_handle d b h) eqn:E; simpl.
  - destruct (is_handle c tok h) eqn:E'; auto. apply is_handle_spec in E as [E1 E2]. apply is_handle_spec in E' as [E3 E4]. subst.
    rewrite Nat.eqb_refl, Z.eqb_refl in N. discriminate.
  - destruct (is_handle c tok h); auto.
Qed.

Lemma handle_put c tok d b u l : negb (Nat.eqb c d && (tok =? b)) = true -> handle_of c tok (Handle d b u :: without d b l) = handle_of c tok l.
Proof.
  intros N. rewrite <- (handle_without c tok d b l N). unfold handle_of. simpl. destruct (is_handle c tok (Handle d b u)) eqn:E; auto.
  apply is_handle_spec in E as [E1 E2]. simpl in *. subst. rewrite Nat.eqb_refl, Z.eqb_refl in N. discriminate.
Qed.

(* An event that does not detach a handle keeps it, and it was valid before if it is valid afterwards. *)
Definition back s s' c tok := handle_of c tok (handles s') <> None /\ now s' = now s /\
  forall t, now s <= t -> valid w s' t c tok = true -> valid w s (now s) c tok = true.

Lemma back_same s s' c tok : handle_of c tok (handles s') = handle_of c tok (handles s) -> incl (ended s) (ended s') -> now s' = now s ->
  handle_of c tok (handles s) <> None -> back s s' c tok.
Proof.
  intros E1 E2 E3 H. unfold back. rewrite E1. repeat split; auto. intros t Ht V. unfold valid in *. rewrite E1 in V.
  destruct (handle_of c tok (handles s)) as [h|]; [|tauto].
  rewrite andb_true_iff, negb_true_iff, is_in_false, Z.leb_le in *. destruct V as [V1 V2]. split; [auto|]. assert (M := Hmono c (now s) t Ht). lia.
Qed.

Lemma happen_back s e s' c tok : happen w s e = Some s' -> stays c tok e = true -> handle_of c tok (handles s) <> None -> back s s' c tok.
Proof.
  intros E St H.
  destruct e as [d r b ttl|d r b ttl|d r b|r k u f|d b|d b|b|n r hint edge|n r f edge|n r edge|n x b|n x b ttl|n|n|n x|n m keys counters|n]; simpl in E;
    unfold begin_round, delete, shorten, verify, repair, exec_extend, exec_ask, exec_acquire, confirm, count in E.
  4: { rewrite Hright in E by discriminate. unfold decide in E. destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (_ && _ && _); [|discriminate].
    destruct (Nat.eqb c (r_client R) && (tok =? r_token R)) eqn:Same.
    - apply andb_prop in Same as [S1 S2]. apply Nat.eqb_eq in S1. apply Z.eqb_eq in S2. subst c tok.
      destruct (handle_of (r_client R) (r_token R) (handles s)) as [h|] eqn:Hh; [|tauto].
      destruct (r_kind R); [discriminate| |].
      + destruct ((client_clock w (r_client R) (now s) <=? h_until h) || wrong w LateRevives) eqn:L; [|discriminate].
        rewrite Hright, orb_false_r in L by discriminate. inversion E; subst s'. unfold back, put, valid. simpl. rewrite handle_same, Hh. repeat split; [discriminate|].
        intros t Ht V. rewrite L. apply andb_prop in V as [V _]. now rewrite V.
      + inversion E; subst s'. unfold back, put, valid. simpl. rewrite handle_same, Hh. repeat split; [discriminate|].
        intros t Ht V. simpl in V. rewrite andb_true_iff, Z.leb_le in *. destruct V as [V1 V2]. split; auto. assert (M := Hmono (r_client R) (now s) t Ht). lia.
    - assert (N : negb (Nat.eqb c (r_client R) && (tok =? r_token R)) = true) by now rewrite Same.
      assert (Q : exists v, handles s' = Handle (r_client R) (r_token R) v :: without (r_client R) (r_token R) (handles s) /\ ended s' = ended s /\ now s' = now s).
      { destruct (r_kind R), (handle_of (r_client R) (r_token R) (handles s)); try discriminate;
        repeat match type of E with context [if ?b then _ else _] => destruct b; try discriminate E end; inversion E; subst; simpl; eauto. }
      destruct Q as [v [Q1 [Q2 Q3]]]. apply back_same; auto; [rewrite Q1; now apply handle_put|rewrite Q2; apply incl_refl]. }
  5: { destruct (valid w s (now s) d b); [|discriminate]. inversion E; subst s'. apply back_same; auto; [simpl; now apply handle_without|apply incl_refl]. }
  all: repeat match type of E with context [match ?y with _ => _ end] => destruct y; try discriminate E end; inversion E; subst;
    apply back_same; try reflexivity; simpl; auto; try apply incl_refl; intros y Y; now right.
Qed.

Definition next (q : list (Z * event)) t := match q with [] => t | (u, _) :: _ => u end.

Lemma run_back q : forall s s' t c tok, run w tolerated s q = Some s' -> now s' <= t -> forallb (fun e => stays c tok (snd e)) q = true ->
  handle_of c tok (handles s) <> None -> valid w s' t c tok = true -> now s <= next q t /\ valid w s (next q t) c tok = true.
Proof.
  induction q as [|[t1 e] q IH]; intros s s' t c tok E Ht St H V; [simpl in E; inversion E; subst; auto|].
  simpl in E, St. apply andb_prop in St as [St0 St].
  destruct (permitted w tolerated (at_time t1 s) e); [|discriminate]. destruct (t1 <? now s) eqn:T; [discriminate|]. apply Z.ltb_ge in T. split; [exact T|].
  destruct (happen w (at_time t1 s) e) as [s1|] eqn:S; [|discriminate].
  destruct (happen_back (at_time t1 s) e s1 c tok S St0 H) as [B1 [B2 B3]].
  destruct (IH s1 s' t c tok E Ht St B1 V) as [N V1]. simpl in B2. apply (B3 (next q t)); [simpl; lia|exact V1].
Qed.

Lemma handle_run q : forall s s' c tok, run w tolerated s q = Some s' -> forallb (fun e => stays c tok (snd e)) q = true ->
  handle_of c tok (handles s) <> None -> handle_of c tok (handles s') <> None.
Proof.
  induction q as [|[t1 e] q IH]; simpl; intros s s' c tok E St H; [inversion E; subst; auto|]. apply andb_prop in St as [St0 St].
  destruct (permitted w tolerated (at_time t1 s) e); [|discriminate]. destruct (t1 <? now s); [discriminate|].
  destruct (happen w (at_time t1 s) e) as [s1|] eqn:S; [|discriminate]. eapply IH; eauto. apply (happen_back (at_time t1 s) e s1 c tok S St0 H).
Qed.

Lemma valid_earlier s t u c a : t <= u -> valid w s u c a = true -> valid w s t c a = true.
Proof.
  unfold valid. destruct (handle_of c a (handles s)) as [h|]; auto. rewrite !andb_true_iff, !Z.leb_le. intros H [V1 V2]. split; auto.
  assert (M := Hmono c t u H). lia.
Qed.

Lemma run_app p : forall s q, run w tolerated s (p ++ q) = match run w tolerated s p with Some s' => run w tolerated s' q | None => None end.
Proof. induction p as [|e p IH]; simpl; auto. intros s q. destruct (permitted _ _ _ _); auto. destruct (step w s e); auto. Qed.

Lemma run_use s t c a q s' : run w tolerated s ((t, Use c a) :: q) = Some s' -> exists s1, s1 = at_time t s /\ now s <= t /\ valid w s t c a = true /\ run w tolerated s1 q = Some s'.
Proof.
  simpl. destruct (t <? now s) eqn:T; [discriminate|]. apply Z.ltb_ge in T.
  destruct (valid w (at_time t s) t c a) eqn:V; [|discriminate]. intros E. exists (at_time t s). repeat split; auto.
Qed.

(* As users see it: between two uses of a lock that was not given up in between, no client uses another lock that has a name in common. *)
Theorem uses_exclude p q1 q2 t1 t2 t3 c a d b x s :
  run w tolerated init (p ++ (t1, Use c a) :: q1 ++ (t2, Use d b) :: q2 ++ [(t3, Use c a)]) = Some s ->
  forallb (fun e => stays c a (snd e)) (q1 ++ q2) = true -> In x (names w a) -> In x (names w b) -> a = b /\ c = d.
Proof.
  intros E St Xa Xb. rewrite forallb_app in St. apply andb_prop in St as [St1 St2].
  rewrite run_app in E. destruct (run w tolerated init p) as [s0|] eqn:E0; [|discriminate].
  destruct (run_use _ _ _ _ _ _ E) as [s1 [-> [T1 [V1 E1]]]]. rewrite run_app in E1.
  destruct (run w tolerated (at_time t1 s0) q1) as [s2|] eqn:E2; [|discriminate].
  destruct (run_use _ _ _ _ _ _ E1) as [s3 [-> [T2 [V2 E3]]]]. rewrite run_app in E3.
  destruct (run w tolerated (at_time t2 s2) q2) as [s4|] eqn:E4; [|discriminate].
  destruct (run_use _ _ _ _ _ _ E3) as [s5 [-> [T3 [V3 _]]]].
  assert (H0 : handle_of c a (handles (at_time t1 s0)) <> None).
  { unfold valid in V1. simpl. destruct (handle_of c a (handles s0)); [discriminate|congruence]. }
  assert (H2 := handle_run q1 _ _ c a E2 St1 H0).
  destruct (run_back q2 (at_time t2 s2) s4 t3 c a E4 T3 St2 H2 V3) as [N V4].
  assert (V5 := valid_earlier _ _ _ c a N V4).
  assert (E6 : run w tolerated init (p ++ (t1, Use c a) :: q1) = Some s2).
  { rewrite run_app, E0. simpl. change (permitted w tolerated (at_time t1 s0) (Use c a)) with true. apply Z.ltb_ge in T1. rewrite T1.
    change (now (at_time t1 s0)) with t1. change (valid w (at_time t1 s0) t1 c a) with (valid w s0 t1 c a). rewrite V1. exact E2. }
  eapply (exclusion _ s2 t2); eauto.
Qed.

End Exclusion.

Lemma nearly w : right w -> right_but_creating w.
Proof. intros H m _. apply H. Qed.
