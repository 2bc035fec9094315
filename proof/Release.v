(* What a release or an undo does: it ends no other lock, and it leaves nothing behind. *)
From Coq Require Import ZArith List Lia Bool Arith.
From Redlock Require Import Model Exclusion.
Import ListNotations.
Open Scope Z_scope.

Lemma update_keeps {A} (f : nat -> nat -> option A) n x v m y z : f m y = Some z -> (m = n -> y = x -> v = Some z) ->
  update f n (update (f n) x v) m y = Some z.
Proof.
  intros H E. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same|rewrite update_other by auto; auto].
  destruct (Nat.eq_dec y x) as [->|N]; [rewrite update_same; auto|rewrite update_other by auto; auto].
Qed.

Section Release.
Variable w : world.
Hypothesis Hright : right w.

Definition gives_up e tok := match e with Delete _ _ k | Shorten _ _ k _ | End k => k = tok | _ => False end.

(* RELEASES ARE HARMLESS. The end, the release and the undo of one token change no key of another token and no other lock's validity. *)
Theorem releases_are_harmless s t e s' tok b : gives_up e tok -> step w s (t, e) = Some s' -> b <> tok ->
  (forall n x z, key s n x = Some (b, z) -> key s' n x = Some (b, z)) /\ (forall u c, valid w s' u c b = valid w s u c b).
Proof.
  intros G E N. unfold step in E. destruct (t <? now s); [discriminate|].
  destruct e as [ | | | | | |k| | | |n x k|n x k ttl| | | | | ]; simpl in G; try contradiction; subst k; simpl in E.
  - inversion E; subst s'. split; [auto|]. intros u c. unfold valid, is_in. simpl. rewrite (proj2 (Z.eqb_neq b tok) N). reflexivity.
  - destruct (_ || _); [|discriminate]. inversion E; subst s'. unfold delete. simpl. destruct (key s n x) as [[k z]|] eqn:K; [|split; [auto|intros; reflexivity]].
    rewrite Hright, orb_false_r. destruct (k =? tok) eqn:T; simpl; (split; [|intros; reflexivity]); auto.
    intros m y z' H. apply update_keeps; auto. intros -> ->. rewrite K in H. inversion H; subst. apply Z.eqb_eq in T. congruence.
  - destruct (is_in _ _); [|discriminate]. inversion E; subst s'. unfold shorten. simpl. destruct (key s n x) as [[k z]|] eqn:K; [|split; [auto|intros; reflexivity]].
    destruct (k =? tok) eqn:T; simpl; (split; [|intros; reflexivity]); auto.
    intros m y z' H. apply update_keeps; auto. intros -> ->. rewrite K in H. inversion H; subst. apply Z.eqb_eq in T. congruence.
Qed.

(* ---- Nothing is left behind ---- *)

Variable tolerated : assumption -> bool.
Hypothesis Horder : tolerated InOrder = false.
Hypothesis Hremember : tolerated NodesRemember = false.
Hypothesis Hhonest : tolerated MarkerHonest = false.

Definition clean s := forall n x tok e, In (n, x, tok) (undone s) -> key s n x <> Some (tok, e).

Lemma clean_keys s s' : undone s' = undone s -> (forall n x a e, key s' n x = Some (a, e) -> exists e', key s n x = Some (a, e')) -> clean s -> clean s'.
Proof. intros U K I n x tok e H E. rewrite U in H. destruct (K n x tok e E) as [e' E']. exact (I n x tok e' H E'). Qed.

Lemma in_order s n r R x : find_round r (rounds s) = Some R -> overtaken w s n r = false -> In x (names w (r_token R)) -> ~ In (n, x, r_token R) (undone s).
Proof.
  unfold overtaken. intros -> O X H.
  assert (T : existsb (fun u => match u with (m, y, k) => Nat.eqb m n && has y (names w (r_token R)) && (k =? r_token R) end) (undone s) = true); [|congruence].
  apply existsb_exists. exists (n, x, r_token R). split; auto. apply has_spec in X. rewrite X, Nat.eqb_refl, Z.eqb_refl. reflexivity.
Qed.

Lemma clean_acquire s n r R hint edge : clean s -> find_round r (rounds s) = Some R -> overtaken w s n r = false -> clean (exec_acquire w n R hint edge s).
Proof.
  intros I F O. unfold exec_acquire. destruct (_ && _); [|exact I].
  assert (C : clean (add_answer (Answer n (r_id R) true (r_ttl R))
    (set_key n (fun x => if has x (names w (r_token R)) then Some (r_token R, ms w n (now s) + r_ttl R) else key s n x) s))).
  { intros m x tok e H E. simpl in H, E. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in E|rewrite update_other in E by auto; exact (I m x tok e H E)].
    destruct (has x (names w (r_token R))) eqn:X; [|exact (I n x tok e H E)]. apply has_spec in X. inversion E; subst tok. exact (in_order s n r R x F O X H). }
  destruct hint; exact C.
Qed.

Lemma clean_repair s n r R edge : clean s -> find_round r (rounds s) = Some R -> overtaken w s n r = false -> clean (repair w n R edge s).
Proof.
  intros I F O. unfold repair. destruct (_ && _ && _ && _); [|exact I].
  intros m x tok e H E. simpl in H, E. destruct (Nat.eq_dec m n) as [->|N]; [rewrite update_same in E|rewrite update_other in E by auto; exact (I m x tok e H E)].
  destruct (has x (names w (r_token R))) eqn:X; simpl in E; [|exact (I n x tok e H E)]. destruct (free w s n edge x); [|exact (I n x tok e H E)].
  apply has_spec in X. inversion E; subst tok. exact (in_order s n r R x F O X H).
Qed.

Lemma clean_extend s n R edge : clean s -> clean (exec_extend w n R edge s).
Proof. apply clean_keys; [unfold exec_extend; now destruct (forallb _ _)|]. intros m x a e. now apply extend_keeps. Qed.

Lemma clean_delete s n x tok : clean s -> clean (add_undone (n, x, tok) (delete w n x tok s)).
Proof.
  intros I m y k e [H|H] E.
  - inversion H; subst m y k. simpl in E. unfold delete in E. destruct (key s n x) as [[k z]|] eqn:K; [|simpl in E; congruence].
    rewrite Hright, orb_false_r in E. destruct (k =? tok) eqn:T; simpl in E; [rewrite !update_same in E; discriminate|].
    rewrite K in E. inversion E; subst. rewrite Z.eqb_refl in T. discriminate.
  - assert (H' : In (m, y, k) (undone s)).
    { revert H. unfold delete. destruct (key s n x) as [[k0 z]|]; auto. destruct (_ || _); auto. }
    simpl in E. unfold delete in E. destruct (key s n x) as [[k0 z]|]; [|exact (I m y k e H' E)]. destruct (_ || _); [|exact (I m y k e H' E)].
    simpl in E. apply update_some in E as [E|[_ [_ E]]]; [exact (I m y k e H' E)|discriminate].
Qed.

Lemma clean_happen s e s' : clean s -> permitted w tolerated s e = true -> happen w s e = Some s' -> clean s'.
Proof.
  intros I P. destruct e as [c r tok ttl|c r tok ttl|c r tok|r k u f|c tok|c tok|tok|n r hint edge|n r f edge|n r edge|n x tok|n x tok ttl|n|n|n x|n m keys counters|n]; simpl;
    unfold begin_round, decide, verify, confirm.
  - destruct (existsb _ _); [discriminate|]. destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. exact I.
  - destruct (valid _ _ _ _ _); [|discriminate]. destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. exact I.
  - destruct (find_round _ _); [discriminate|]. intros E; inversion E; subst. exact I.
  - rewrite Hright. destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (_ && _ && _); [|discriminate]. intros E.
    destruct (r_kind R), (handle_of (r_client R) (r_token R) (handles s)); try discriminate;
      repeat match type of E with context [if ?b then _ else _] => destruct b; try discriminate E end; inversion E; subst; exact I.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst. exact I.
  - destruct (valid _ _ _ _ _); [|discriminate]. intros E; inversion E; subst. exact I.
  - intros E; inversion E; subst. exact I.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. destruct (r_kind R) eqn:K.
    + apply clean_acquire with r; auto. assert (B : acquires s r && overtaken w s n r = false).
      { apply (never w tolerated s (Exec n r hint edge) InOrder _ P Horder). intros H. unfold breaks. apply in_or_app. right. apply in_or_app. right. now apply in_when. }
      unfold acquires in B. rewrite F, K in B. exact B.
    + now apply clean_extend.
    + unfold exec_ask. destruct (forallb _ _); exact I.
  - destruct (find_round r (rounds s)) as [R|]; [|discriminate]. destruct (r_kind R); try discriminate. destruct (one_counted _ _ _); [|discriminate].
    intros E; inversion E; subst. destruct (_ || _); [|exact I]. destruct (_ && _); exact I.
  - destruct (find_round r (rounds s)) as [R|] eqn:F; [|discriminate]. intros E; inversion E; subst. apply clean_repair with r; auto.
    apply (never w tolerated s (Repair n r edge) InOrder _ P Horder). intros H. unfold breaks. now apply in_when.
  - destruct (_ || _); [|discriminate]. intros E; inversion E; subst. now apply clean_delete.
  - destruct (is_in _ _); [|discriminate]. intros E; inversion E; subst. unfold shorten. destruct (key s n x) as [[k z]|] eqn:K; [|exact I].
    destruct (k =? tok) eqn:T; [|exact I]. eapply clean_keys; [..|exact I]; [reflexivity|]. intros m y a e H. simpl in H.
    apply update_some in H as [H|[-> [-> H]]]; [eauto|inversion H; subst; eauto].
  - intros E; inversion E; subst. destruct (mark s n) as [|q|]; [exact I| |exact I]. destruct (_ <=? _); [exact I|]. destruct (_ <? _); exact I.
  - destruct (mark s n); try discriminate. intros E; inversion E; subst. exact I.
  - intros E; inversion E; subst. eapply clean_keys; [..|exact I]; [reflexivity|]. intros m y a e H. simpl in H.
    apply update_some in H as [H|[_ [_ H]]]; [eauto|discriminate].
  - unfold permitted in P. simpl in P. destruct m; simpl in P; rewrite andb_true_r in P; congruence.
  - intros E; inversion E; subst. exact I.
Qed.

(* NOTHING IS LEFT BEHIND. A node that has executed a release or an undo of a token has no key with that token afterwards. *)
Theorem nothing_left_behind tr s n x tok e : run w tolerated init tr = Some s -> In (n, x, tok) (undone s) -> key s n x <> Some (tok, e).
Proof.
  intros E. enough (C : clean s) by (exact (C n x tok e)). revert E. assert (C0 : clean init) by (intros m y k z []). revert C0. generalize init as s0.
  induction tr as [|[t v] tr IH]; simpl; intros s0 C0 E; [inversion E; subst; auto|].
  destruct (permitted w tolerated (at_time t s0) v) eqn:P; [|discriminate]. destruct (t <? now s0); [discriminate|].
  destruct (happen w (at_time t s0) v) as [s1|] eqn:S; [|discriminate]. apply (IH s1); auto. exact (clean_happen (at_time t s0) v s1 C0 P S).
Qed.

End Release.
