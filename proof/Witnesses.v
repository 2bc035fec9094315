(* Witnesses: runs that satisfy all hypotheses of a theorem, and in which locks are acquired, contended, extended,
   checked, detached, resumed, released and acquired again. Without them a theorem could hold because its hypotheses
   contradict each other. *)
From Coq Require Import ZArith List Bool Lia.
From Redlock Require Import Model Exclusion Release Fences OrderedFences Clocks Worlds.
Import ListNotations.
Open Scope Z_scope.

(* ---- Exclusion while nodes remember, with clocks at different rates and a node an hour behind ---- *)

Definition ns := [Clock 7 1004 1000; Clock (-3600000000000) 996 1000].
Definition cs := [Clock 99 996 1000; Clock 1700000000000000000 1004 1000].
Definition w1 := with_clocks (clocks cs) (clocks ns) (plain correct).
Definition c0 t := read (Clock 99 996 1000) t.
Definition c1 t := read (Clock 1700000000000000000 1004 1000) t.

Definition first_half := [
  (1000 * MS, Acquire 0 1 100 1000);
  (1001 * MS, exec 0 1);
  (1002 * MS, exec 1 1);
  (1003 * MS, Acquire 1 2 200 1000);
  (1004 * MS, exec 2 2);
  (1005 * MS, exec 1 2);                              (* refuses *)
  (1006 * MS, Decide 1 1000 (c0 (1000 * MS) + 988 * MS) 0);
  (1006 * MS, Use 0 100);
  (1006 * MS, End 200);
  (1007 * MS, Delete 2 0 200);                        (* the undo *)
  (1007 * MS, Delete 1 0 200) ].                      (* harmless where another token is *)
Definition second_half := [
  (1500 * MS, Extend 0 3 100 1000);
  (1501 * MS, exec 0 3);
  (1501 * MS, exec 2 1);                              (* the acquire arrives late, and is granted *)
  (1502 * MS, exec 1 3); (1502 * MS, exec 1 3);       (* doubled *)
  (1503 * MS, Decide 3 1000 (c0 (1500 * MS) + 988 * MS) 0);
  (1504 * MS, Use 0 100);
  (1600 * MS, Ask 0 4 100); (1601 * MS, exec 0 4); (1602 * MS, exec 1 4);
  (1603 * MS, Decide 4 890 (c0 (1600 * MS) + 870 * MS) 0); (* Check shortens the validity a little *)
  (1604 * MS, Use 0 100);
  (1700 * MS, Detach 0 100);
  (1701 * MS, Ask 1 5 100); (1702 * MS, exec 1 5); (1702 * MS, exec 0 5);
  (1703 * MS, Decide 5 790 (c1 (1701 * MS) + 770 * MS) 0); (* Resume by another client *)
  (2400 * MS, Use 1 100);                             (* after the first validity *)
  (2401 * MS, End 100);
  (2402 * MS, Delete 0 0 100); (2402 * MS, Delete 0 0 100); (2403 * MS, Delete 1 0 100);
  (2404 * MS, Acquire 0 6 400 500);                   (* on two names *)
  (2405 * MS, exec 0 6); (2405 * MS, exec 1 6);
  (2406 * MS, Decide 6 500 (c0 (2404 * MS) + 493 * MS) 0);
  (2407 * MS, Acquire 1 7 500 500); (2408 * MS, exec 0 7); (2408 * MS, exec 2 7); (2408 * MS, exec 1 7); (* one of them *)
  (2410 * MS, End 500) ].

Example first_hold : holders w1 all_hold first_half (1900 * MS) = Some [(0%nat, 100)]. Proof. vm_compute. reflexivity. Qed.
Example kept_by_two : keepers w1 all_hold first_half (1900 * MS) 0 100 0 = Some 2%nat. Proof. vm_compute. reflexivity. Qed.
Example three_uses : used_between w1 all_hold (firstn 7 first_half) (1006 * MS) (skipn 8 first_half ++ firstn 6 second_half)
  (1504 * MS) (firstn 4 (skipn 7 second_half)) (1604 * MS) 0 100 0 100 = true. Proof. vm_compute. reflexivity. Qed.
Example handed_over : holders w1 all_hold (first_half ++ firstn 17 second_half) (2300 * MS) = Some [(1%nat, 100)]. Proof. vm_compute. reflexivity. Qed.
(* The claim stands until 2,473 ms of real time, first without a handle and then with another client's. Nothing else on the name is valid until then. *)
Example claimed : claim_and_holders w1 all_hold (first_half ++ firstn 12 second_half) (1700 * MS) 0 100 [] (2300 * MS) = Some (true, [])
  /\ claim_and_holders w1 all_hold (first_half ++ firstn 12 second_half) (1700 * MS) 0 100 (firstn 4 (skipn 13 second_half)) (2300 * MS) = Some (true, [(1%nat, 100)]).
Proof. vm_compute. split; reflexivity. Qed.
Example second_hold : holders w1 all_hold (first_half ++ second_half) (2411 * MS) = Some [(0%nat, 400)]. Proof. vm_compute. reflexivity. Qed.

(* w1 satisfies the hypotheses of exclusion, held and uses_exclude. *)
Example w1_fits : all_fit cs ns = true. Proof. vm_compute. reflexivity. Qed.
Theorem exclusion_has_a_witness : right w1 /\ monotonic w1 /\ within_drift w1 /\ same_nodes w1 /\ forget_under_guard w1 all_hold.
Proof.
  destruct (constant_rates w1 cs ns w1_fits eq_refl eq_refl) as [M D]. repeat split; auto; try discriminate.
  apply allowance_suffices; auto.
Qed.

(* ---- Exclusion while nodes forget, under the restart guard ---- *)

Definition w2 := guarded_world correct.
Definition forgets := all_but [NodesRemember].
Definition nothing : nat -> option (Z * Z) := fun _ => None.
Definition old_data : nat -> option (Z * Z) := fun x => if Nat.eqb x 0 then Some (900, 99999) else None.
Definition zero (x : nat) := 0.

Definition guard_run := [
  (0, Verify 0); (0, Verify 1); (0, Verify 2);                       (* a new deployment waits *)
  (1 * MS, Acquire 0 9 900 1000); (1 * MS, exec 0 9); (1 * MS, exec 1 9); (2 * MS, End 900);  (* in vain *)
  (1000 * MS, Verify 0); (1000 * MS, Verify 1); (1000 * MS, Verify 2);
  (1001 * MS, Acquire 0 1 100 1000); (1002 * MS, exec 0 1); (1002 * MS, exec 1 1); (1003 * MS, Decide 1 1000 (1989 * MS) 0);
  (1050 * MS, Use 0 100);
  (1100 * MS, Restart 1 Unmarked old_data zero); (1101 * MS, Verify 1);  (* node 1 comes back with the key of 900 *)
  (1102 * MS, Acquire 1 2 200 1000); (1103 * MS, exec 1 2); (1103 * MS, exec 2 2); (1104 * MS, End 200); (1105 * MS, Delete 2 0 200);
  (1110 * MS, Delete 1 0 900);
  (1800 * MS, Extend 0 3 100 1000); (1801 * MS, exec 0 3); (1801 * MS, exec 1 3); (1802 * MS, exec 2 1); (1803 * MS, exec 2 3);
  (1804 * MS, Decide 3 1000 (2788 * MS) 0); (2000 * MS, Use 0 100);
  (2101 * MS, Verify 1); (2102 * MS, Repair 1 3 false);
  (2500 * MS, Extend 0 4 100 1000); (2501 * MS, exec 1 4); (2501 * MS, exec 0 4); (2502 * MS, Decide 4 1000 (3488 * MS) 0);
  (2600 * MS, Restart 2 Unmarked nothing zero);
  (3000 * MS, Use 0 100) ].
Example guarded_hold : holders w2 forgets guard_run (3488 * MS) = Some [(0%nat, 100)]. Proof. vm_compute. reflexivity. Qed.
Example three_guarded_uses : used_between w2 forgets (firstn 14 guard_run) (1050 * MS) (firstn 14 (skipn 15 guard_run)) (2000 * MS)
  (firstn 7 (skipn 30 guard_run)) (3000 * MS) 0 100 0 100 = true. Proof. vm_compute. reflexivity. Qed.
Example guarded_claim : claim_and_holders w2 forgets (firstn 14 guard_run) (1050 * MS) 0 100 [(1100 * MS, Restart 1 Unmarked old_data zero);
    (1200 * MS, Ask 1 8 100); (1201 * MS, exec 0 8); (1201 * MS, exec 2 1); (1202 * MS, exec 2 8); (1203 * MS, Decide 8 780 (1960 * MS) 0)] (1950 * MS)
  = Some (true, [(1%nat, 100)]). Proof. vm_compute. reflexivity. Qed.
Example released_and_acquired : holders w2 forgets (guard_run ++ [
  (3100 * MS, End 100); (3101 * MS, Delete 0 0 100); (3101 * MS, Delete 1 0 100);
  (3102 * MS, Acquire 1 5 300 1000); (3103 * MS, exec 0 5); (3103 * MS, exec 1 5); (3104 * MS, Decide 5 1000 (4000 * MS) 0) ])
  (3200 * MS) = Some [(1%nat, 300)]. Proof. vm_compute. reflexivity. Qed.
Theorem guarded_exclusion_has_a_witness : right w2 /\ monotonic w2 /\ within_drift w2 /\ same_nodes w2 /\ forget_under_guard w2 forgets.
Proof.
  destruct (constant_rates w2 [] [] eq_refl eq_refl eq_refl) as [M D]. repeat split; auto. apply allowance_suffices; auto.
Qed.

(* ---- Exclusion and fences under the guard, while servers start again and keep their data: nothing is tolerated ---- *)

Definition reboot_run := [
  (0, Verify 0); (0, Verify 1); (0, Verify 2); (1000 * MS, Verify 0); (1000 * MS, Verify 1); (1000 * MS, Verify 2);
  (1001 * MS, Acquire 0 1 100 1000); (1002 * MS, exec_at 1001000 0 1); (1002 * MS, exec_at 1001000 1 1); (1003 * MS, Decide 1 1000 (1989 * MS) 1001000);
  (1100 * MS, Reboot 0); (1100 * MS, Reboot 1); (1101 * MS, Verify 0); (1101 * MS, Verify 1);
  (1102 * MS, Acquire 1 2 200 1000); (1103 * MS, exec_at 1102000 2 2); (1103 * MS, exec_at 1102000 0 2); (1104 * MS, End 200); (1105 * MS, Delete 2 0 200);
  (2101 * MS, Verify 0); (2101 * MS, Verify 1);
  (2102 * MS, Acquire 1 3 300 1000); (2103 * MS, exec_at 0 0 3); (2103 * MS, exec_at 0 1 3); (2104 * MS, Decide 3 1000 (3090 * MS) 1853000) ].
Example rebooted : holders w2 (only []) (firstn 19 reboot_run) (1900 * MS) = Some [(0%nat, 100)]
  /\ holders w2 (only []) reboot_run (2200 * MS) = Some [(1%nat, 300)]
  /\ fences_of w2 (only []) reboot_run = Some [(300, 1853000); (100, 1001000)]. Proof. vm_compute. repeat split; reflexivity. Qed.

(* ---- Fences and releases while nodes remember. This world has real clocks, and so all hypotheses ---- *)

Definition fenced := [
  (0, Acquire 0 1 100 1000); (1 * MS, exec_at 1000 0 1); (1 * MS, exec_at 1000 1 1); (2 * MS, Decide 1 0 (980 * MS) 1000);
  (3 * MS, End 100); (3 * MS, Delete 0 0 100); (3 * MS, Delete 1 0 100);
  (4 * MS, Acquire 1 2 400 1000); (5 * MS, exec_at 5 2 2); (5 * MS, exec_at 5 1 2);      (* on two names, by a client whose clock is behind *)
  (6 * MS, Confirm 2 2 1001 false); (7 * MS, Decide 2 0 (980 * MS) 1001);
  (8 * MS, End 400); (8 * MS, Delete 2 0 400); (8 * MS, Delete 1 0 400); (8 * MS, Delete 2 1 400); (8 * MS, Delete 1 1 400);
  (9 * MS, Acquire 0 3 500 1000); (10 * MS, exec_at 7 0 3); (10 * MS, exec_at 7 1 3); (11 * MS, Confirm 0 3 1002 false);
  (12 * MS, Decide 3 0 (980 * MS) 1002) ].
Example three_fences : fences_of (plain correct) all_hold fenced = Some [(500, 1002); (400, 1001); (100, 1000)]
  /\ key_of (plain correct) all_hold fenced 0%nat 0%nat = Some None. Proof. vm_compute. split; reflexivity. Qed.

(* Node 2 confirms the fence of 400, which it has granted. *)
Example confirmed_after_a_grant : confirmers (plain correct) all_hold (firstn 11 fenced) 2 = Some [(2%nat, true)]. Proof. vm_compute. reflexivity. Qed.

(* ---- Fences while keys vanish ---- *)

Definition vanishing := all_but [KeysKept].
Definition fence_run := [
  (0, Acquire 0 1 100 1000); (1 * MS, exec_at 1000 0 1); (1 * MS, exec_at 1000 1 1); (2 * MS, Decide 1 1000 (980 * MS) 1000);
  (3 * MS, Vanish 0 0); (3 * MS, Vanish 1 0);
  (4 * MS, Acquire 1 2 200 1000); (5 * MS, exec_at 5 2 2); (5 * MS, exec_at 5 1 2);  (* a client whose clock is behind *)
  (6 * MS, Confirm 2 2 1001 false); (7 * MS, Decide 2 1000 (980 * MS) 1001) ].
Example two_holders_and_two_fences : holders (plain correct) vanishing fence_run (8 * MS) = Some [(1%nat, 200); (0%nat, 100)]
  /\ fences_of (plain correct) vanishing fence_run = Some [(200, 1001); (100, 1000)]. Proof. vm_compute. split; reflexivity. Qed.
Theorem fences_have_a_witness : right (plain correct) /\ same_nodes (plain correct) /\
  vanishing NodesRemember = false /\ vanishing MarkerHonest = false /\ vanishing ExecutedOnce = false.
Proof. repeat split. Qed.

(* ---- Fences while nodes forget, under the guard. Node 2 is 400 ms ahead, which is below 1000 - 2 * 250 - 1 ms ---- *)

Definition ahead := [real; real; Clock (400 * MS) 1 1].
Definition w3 := with_clocks (clocks []) (clocks ahead) (guarded_world correct).
Definition guarded_fence_run := [
  (0, Verify 0); (0, Verify 1); (0, Verify 2); (1400 * MS, Verify 0); (1400 * MS, Verify 1); (1400 * MS, Verify 2);
  (1500 * MS, Acquire 0 1 100 1000); (1501 * MS, exec_at 1900000 0 1); (1501 * MS, exec_at 1900000 2 1);
  (1502 * MS, Confirm 0 1 1900000 false); (1503 * MS, Decide 1 1000 (2488 * MS) 1900000);
  (1600 * MS, Extend 0 3 100 1000); (1601 * MS, exec 0 3); (1601 * MS, exec 2 3); (1602 * MS, Decide 3 1000 (2588 * MS) 0);
  (1700 * MS, End 100); (1700 * MS, Delete 0 0 100);
  (1800 * MS, Restart 0 Unmarked nothing zero); (1800 * MS, Restart 1 Unmarked nothing zero); (1800 * MS, Verify 0); (1800 * MS, Verify 1);
  (2800 * MS, Verify 0); (2800 * MS, Verify 1);
  (2801 * MS, Acquire 1 2 200 1000); (2802 * MS, exec_at 0 0 2); (2802 * MS, exec_at 0 1 2); (2803 * MS, Decide 2 1000 (3780 * MS) 2552000)].
Example fences_of_nodes_that_forget : fences_of w3 (only [NodesRemember]) guarded_fence_run = Some [(200, 2552000); (100, 1900000)]
  /\ holders w3 (only [NodesRemember]) guarded_fence_run (2804 * MS) = Some [(1%nat, 200)]. Proof. vm_compute. split; reflexivity. Qed.
Theorem ordered_fences_have_a_witness : right w3 /\ monotonic w3 /\ within_drift w3 /\ same_nodes w3 /\
  forget_under_guard w3 (only [NodesRemember]) /\ fences_survive_forgetting w3 (only [NodesRemember]) 400000.
Proof.
  destruct (constant_rates w3 [] ahead eq_refl eq_refl eq_refl) as [M D].
  assert (S : forall o t, read (Clock o 1 1) t = o + t) by (intros o t; unfold read; cbn [off num den]; now rewrite Z.mul_1_r, Z.div_1_r).
  assert (E : forall n t, node_clock w3 n t = read (nth n ahead real) t) by reflexivity.
  assert (N : forall n, nth n ahead real = real \/ nth n ahead real = Clock (400 * MS) 1 1).
  { intros n. destruct n as [|[|[|[|n]]]]; [now left|now left|now right|now left|now left]. }
  split; [intros m; reflexivity|]. split; [exact M|]. split; [apply allowance_suffices; [intros k; reflexivity|exact D]|]. split; [intros c d; reflexivity|].
  split; [intros _; repeat split|]. intros _. split; [reflexivity|]. split; [reflexivity|]. split; [|split; [|vm_compute; discriminate]].
  - intros n t t' H. rewrite !E. destruct (N n) as [-> | ->]; unfold real; rewrite !S; lia.
  - intros n m t. unfold us. rewrite !E. transitivity ((400 * MS + t) / 1000).
    + apply Z.div_le_mono; [lia|]. destruct (N m) as [-> | ->]; unfold real; rewrite S; unfold MS; lia.
    + replace (400 * MS + t) with (t + 400000 * 1000) by (unfold MS; lia). rewrite Z.div_add by lia.
      assert (t / 1000 <= read (nth n ahead real) t / 1000); [|lia]. apply Z.div_le_mono; [lia|]. destruct (N n) as [-> | ->]; unfold real; rewrite S; unfold MS; lia.
Qed.
