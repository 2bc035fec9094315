(* What each well-known mistake breaks. No run here breaks an assumption, unless it says so. *)
From Coq Require Import ZArith List Bool.
From Redlock Require Import Model Clocks Worlds.
Import ListNotations.
Open Scope Z_scope.

Definition two := Some [(1%nat, 200); (0%nat, 100)].          (* the clients 1 and 0 hold name 0 at once *)
Definition one := Some [(1%nat, 200)].
Definition impossible : option (list (nat * Z)) := None.

(* Client 0 acquires name 0 on the nodes 0 and 1, at 0 ms, and client 1 on two nodes later. *)
Definition first_lock := [(0, Acquire 0 1 100 1000); (1 * MS, exec 0 1); (1 * MS, exec 1 1); (2 * MS, Decide 1 1000 (988 * MS) 0)].
Definition second_lock t n m := [(t * MS, Acquire 1 2 200 1000); (t * MS, exec n 2); (t * MS, exec m 2); (t * MS, Decide 2 1000 ((t + 988) * MS) 0)].

(* The validity counts from the answer: it outlives the keys. *)
Definition late_validity := [(0, Acquire 0 1 100 1000); (1 * MS, exec 0 1); (1 * MS, exec 1 1); (900 * MS, Decide 1 1000 (1888 * MS) 0)] ++ second_lock 1002 0 1.
Example validity_from_answer : holders (plain (with_mistake ValidityFromAnswer)) all_hold late_validity (1003 * MS) = two
  /\ holders (plain correct) all_hold late_validity (1003 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* A quorum of the nodes that answered: one of one. *)
Definition one_answer := [(0, Acquire 0 1 100 1000); (1 * MS, exec 0 1); (2 * MS, Decide 1 1000 (988 * MS) 0);
  (3 * MS, Acquire 1 2 200 1000); (4 * MS, exec 1 2); (5 * MS, Decide 2 1000 (990 * MS) 0)].
Example quorum_of_answers : holders (plain (with_mistake QuorumOfAnswers)) all_hold one_answer (6 * MS) = two
  /\ holders (plain correct) all_hold one_answer (6 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* Half of four nodes. *)
Definition four m := with_members (fun _ => [0; 1; 2; 3]%nat) (plain m).
Example half_is_enough : holders (four (with_mistake HalfIsEnough)) all_hold (first_lock ++ second_lock 3 2 3) (4 * MS) = two
  /\ holders (four correct) all_hold first_lock (2 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* An extension by a shorter TTL shortens the keys, and the validity stays. *)
Definition short_extension := first_lock ++ [(10 * MS, Extend 0 3 100 100); (11 * MS, exec 0 3); (11 * MS, exec 1 3)].
Example extension_shortens : holders (plain (with_mistake ExtensionShortens)) all_hold (short_extension ++ second_lock 200 0 1) (201 * MS) = two
  /\ holders (plain correct) all_hold (short_extension ++ second_lock 200 0 1) (201 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* A client that was refused releases what it does not hold. *)
Definition foreign_release := first_lock ++ [(3 * MS, Acquire 2 9 900 1000); (4 * MS, exec 0 9); (4 * MS, exec 1 9); (5 * MS, End 900);
  (6 * MS, Delete 0 0 900); (6 * MS, Delete 1 0 900)].
Example release_uncompared : holders (plain (with_mistake ReleaseUncompared)) all_hold (foreign_release ++ second_lock 7 0 1) (8 * MS) = two
  /\ holders (plain correct) all_hold (foreign_release ++ second_lock 7 0 1) (8 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* A command that was sent again, or was late, is undone while the lock is valid. One node of three keeps the lock then, and another client acquires
   the name. It may also do so while the first lock is a claim, whose validity is not over. *)
Example undo_while_valid : holders (plain (with_mistake UndoWhileValid)) all_hold (first_lock ++ [(3 * MS, Delete 0 0 100)] ++ second_lock 4 0 2) (5 * MS) = two
  /\ holders (plain correct) all_hold (first_lock ++ [(3 * MS, Delete 0 0 100)]) (5 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.
Definition undone_lock := first_lock ++ [(3 * MS, Delete 0 0 100)].
Example one_keeper : holders (plain (with_mistake UndoWhileValid)) all_hold undone_lock (4 * MS) = Some [(0%nat, 100)]
  /\ keepers (plain (with_mistake UndoWhileValid)) all_hold undone_lock (4 * MS) 0 100 0 = Some 1%nat
  /\ keepers (plain correct) all_hold first_lock (4 * MS) 0 100 0 = Some 2%nat. Proof. vm_compute. repeat split; reflexivity. Qed.
Example claim_undone : claim_and_holders (plain (with_mistake UndoWhileValid)) all_hold first_lock (3 * MS) 0 100 ([(3 * MS, Delete 0 0 100)] ++ second_lock 4 0 2) (5 * MS)
  = Some (true, [(1%nat, 200)]). Proof. vm_compute. reflexivity. Qed.

(* The answers to an extension arrive after the lock has ended and was undone, and revive it. *)
Definition late_answers := first_lock ++ [(500 * MS, Extend 0 3 100 1000); (501 * MS, exec 0 3); (501 * MS, exec 1 3);
  (989 * MS, End 100); (990 * MS, Delete 0 0 100); (990 * MS, Delete 1 0 100)] ++ second_lock 991 0 1.
Example late_revives : holders (plain (with_mistake LateRevives)) all_hold (late_answers ++ [(992 * MS, Decide 3 1000 (1488 * MS) 0)]) (993 * MS)
    = Some [(0%nat, 100); (1%nat, 200)]
  /\ holders (plain correct) all_hold (late_answers ++ [(992 * MS, Decide 3 1000 (1488 * MS) 0)]) (993 * MS) = impossible
  /\ holders (plain correct) all_hold late_answers (993 * MS) = one. Proof. vm_compute. repeat split; reflexivity. Qed.
(* … and so each of two clients uses its lock between two uses of the other's. *)
Example uses_of_a_revived_lock : used_between (plain (with_mistake LateRevives)) all_hold first_lock (3 * MS) (skipn 4 late_answers)
  (991 * MS) [(992 * MS, Decide 3 1000 (1488 * MS) 0)] (993 * MS) 0 100 1 200 = true. Proof. vm_compute. reflexivity. Qed.

(* An extension that creates does not break exclusion (creating_extensions_exclude). It leaves a key behind a release, which blocks the name. *)
Definition late_extension := first_lock ++ [(500 * MS, Extend 0 3 100 1000); (501 * MS, End 100); (502 * MS, Delete 0 0 100); (503 * MS, exec 0 3)].
Example extension_creates : key_of (plain (with_mistake ExtensionCreates)) all_hold late_extension 0%nat 0%nat = Some (Some (100, 1503))
  /\ key_of (plain correct) all_hold late_extension 0%nat 0%nat = Some None. Proof. vm_compute. split; reflexivity. Qed.
(* Here it creates a key on node 2, which has never granted the lock, and counts that as a vote. *)
Definition created := first_lock ++ [(500 * MS, Extend 0 3 100 1000); (501 * MS, exec 0 3); (501 * MS, exec 2 3); (502 * MS, Decide 3 1000 (1488 * MS) 0)].
Example created_and_counted : holders (plain (with_mistake ExtensionCreates)) all_hold created (1488 * MS) = Some [(0%nat, 100)]
  /\ holders (plain correct) all_hold created (1488 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* An undo overtakes its acquire: the key stays, and blocks the node until its TTL. It breaks no exclusion either. In the model it is a run
   that breaks an assumption: one connection keeps the order. *)
Definition overtaking := [(0, Acquire 0 1 100 1000); (1 * MS, End 100); (2 * MS, Delete 0 0 100); (3 * MS, exec 0 1)].
Example undo_overtakes : key_of (plain correct) (all_but [InOrder]) overtaking 0%nat 0%nat = Some (Some (100, 1003))
  /\ key_of (plain correct) all_hold overtaking 0%nat 0%nat = None. Proof. vm_compute. split; reflexivity. Qed.

(* ---- The restart guard. Nodes forget ---- *)

Definition forgets := all_but [NodesRemember].
Definition nothing : nat -> option (Z * Z) := fun _ => None.
Definition zero (x : nat) := 0.

(* A new deployment has waited. *)
Definition begun := [(0, Verify 0); (0, Verify 1); (0, Verify 2); (1000 * MS, Verify 0); (1000 * MS, Verify 1); (1000 * MS, Verify 2)].
Definition lock_at t c r tok n m := [(t * MS, Acquire c r tok 1000); (t * MS, exec n r); (t * MS, exec m r); (t * MS, Decide r 1000 ((t + 988) * MS) 0)].

(* The guard waits for half of the longest TTL. *)
Definition half_quarantine := begun ++ lock_at 1001 0 1 100 0 1 ++ [(1100 * MS, Restart 1 Unmarked nothing zero); (1101 * MS, Verify 1); (1601 * MS, Verify 1)]
  ++ lock_at 1602 1 2 200 1 2.
Example short_quarantine : holders (guarded_world (with_mistake ShortQuarantine)) forgets half_quarantine (1603 * MS) = two
  /\ holders (guarded_world correct) forgets half_quarantine (1603 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

Example uses_in_half_a_quarantine : used_between (guarded_world (with_mistake ShortQuarantine)) forgets (begun ++ lock_at 1001 0 1 100 0 1) (1001 * MS)
  (skipn 10 half_quarantine) (1602 * MS) [] (1603 * MS) 0 100 1 200 = true. Proof. vm_compute. reflexivity. Qed.
Example claim_in_half_a_quarantine : claim_and_holders (guarded_world (with_mistake ShortQuarantine)) forgets (begun ++ lock_at 1001 0 1 100 0 1) (1001 * MS) 0 100
  (skipn 10 half_quarantine) (1603 * MS) = Some (true, [(1%nat, 200)]). Proof. vm_compute. reflexivity. Qed.

(* A Resume counts nodes in quarantine. Client 0 detached 100, whose keys are gone, client 1 holds 200, and the nodes 0 and 1 come
   back with older data, in which 100 is still there. *)
Definition older : nat -> option (Z * Z) := fun x => if Nat.eqb x 0 then Some (100, 9000) else None.
Definition old_claim := begun ++ lock_at 1001 0 1 100 0 1 ++ [(1002 * MS, Detach 0 100)] ++ lock_at 2100 1 2 200 0 1 ++
  [(2200 * MS, Restart 0 Unmarked older zero); (2200 * MS, Restart 1 Unmarked older zero);
   (2201 * MS, Ask 0 3 100); (2202 * MS, exec 0 3); (2202 * MS, exec 1 3); (2203 * MS, Decide 3 1000 (3100 * MS) 0)].
Example count_in_quarantine : holders (guarded_world (with_mistake CountInQuarantine)) forgets old_claim (2204 * MS) = Some [(0%nat, 100); (1%nat, 200)]
  /\ holders (guarded_world correct) forgets old_claim (2204 * MS) = impossible. Proof. vm_compute. split; reflexivity. Qed.

(* A repair creates a key in quarantine, and an extension counts there: it takes both mistakes. Node 2 had granted 200 and forgot it;
   it is repaired for 100 and confirms 100's extension. Node 1 is not extended, and grants 200 when its key of 100 has expired. *)
Definition both (m : mistake) := match m with CountInQuarantine | RepairInQuarantine => true | _ => false end.
Definition repaired := begun ++ lock_at 1001 0 1 100 0 1 ++ [
  (1200 * MS, Extend 0 3 100 1000);
  (1795 * MS, Acquire 1 2 200 1000); (1800 * MS, exec 2 2); (1810 * MS, Restart 2 Unmarked nothing zero); (1811 * MS, Verify 2);
  (1820 * MS, Repair 2 3 false);
  (1900 * MS, Extend 0 4 100 1000); (1901 * MS, exec 0 4); (1901 * MS, exec 2 4); (1902 * MS, Decide 4 1000 (2888 * MS) 0);
  (2006 * MS, exec 1 2); (2007 * MS, Decide 2 1000 (2783 * MS) 0)].
Example repair_in_quarantine : holders (guarded_world both) forgets repaired (2008 * MS) = two
  /\ holders (guarded_world (with_mistake RepairInQuarantine)) forgets repaired (2008 * MS) = impossible
  /\ holders (guarded_world (with_mistake CountInQuarantine)) forgets repaired (2008 * MS) = impossible. Proof. vm_compute. repeat split; reflexivity. Qed.

(* ---- Fences ---- *)

Definition no_fences : option (list (Z * Z)) := None.

(* The largest number, that one node counted, without a confirmation: the next lock has a smaller one. *)
Definition unconfirmed := [
  (0, Acquire 2 9 900 1000); (1 * MS, exec_at 100 1 9); (2 * MS, End 900); (2 * MS, Delete 1 0 900);
  (3 * MS, Acquire 0 1 100 1000); (4 * MS, exec_at 50 0 1); (4 * MS, exec_at 50 1 1); (5 * MS, Decide 1 1000 (900 * MS) 101);
  (6 * MS, End 100); (7 * MS, Delete 0 0 100);
  (8 * MS, Acquire 1 2 200 1000); (9 * MS, exec_at 60 0 2); (9 * MS, exec_at 60 2 2); (10 * MS, Decide 2 1000 (900 * MS) 60) ].
Example fence_of_one_node : fences_of (plain (with_mistake FenceOfOneNode)) all_hold unconfirmed = Some [(200, 60); (100, 101)]
  /\ fences_of (plain correct) all_hold unconfirmed = no_fences. Proof. vm_compute. split; reflexivity. Qed.

(* Under the guard, with half a quarantine: the nodes 0 and 1 lose their counters. Node 2 is ahead of them by 400 ms, and counted for 100. *)
Definition half_a_quarantine_of_counters := begun ++ [
  (1500 * MS, Acquire 0 1 100 1000); (1501 * MS, exec_at 1900000 0 1); (1501 * MS, exec_at 1900000 2 1);
  (1502 * MS, Confirm 0 1 1900000 false); (1503 * MS, Decide 1 1000 (2488 * MS) 1900000); (1504 * MS, End 100); (1504 * MS, Delete 0 0 100);
  (1505 * MS, Restart 0 Unmarked nothing zero); (1505 * MS, Restart 1 Unmarked nothing zero); (1505 * MS, Verify 0); (1505 * MS, Verify 1);
  (2005 * MS, Verify 0); (2005 * MS, Verify 1);
  (2006 * MS, Acquire 1 2 200 1000); (2007 * MS, exec_at 0 0 2); (2007 * MS, exec_at 0 1 2); (2008 * MS, Decide 2 1000 (2990 * MS) 1757000)].
Definition node_2_ahead m := with_clocks (clocks []) (clocks [real; real; Clock (400 * MS) 1 1]) (guarded_world m).
Example counters_in_half_a_quarantine : fences_of (node_2_ahead (with_mistake ShortQuarantine)) forgets half_a_quarantine_of_counters = Some [(200, 1757000); (100, 1900000)]
  /\ fences_of (node_2_ahead correct) forgets half_a_quarantine_of_counters = no_fences. Proof. vm_compute. split; reflexivity. Qed.

(* A key vanishes early, and its node confirms the fence although it has granted another lock: two locks have the same fence. *)
Definition vanishing := all_but [KeysKept].
Definition foreign_confirmation := [
  (0, Acquire 2 9 900 1000); (1 * MS, exec_at 100 1 9); (2 * MS, End 900); (2 * MS, Delete 1 0 900);
  (3 * MS, Acquire 0 1 100 1000); (4 * MS, exec_at 50 0 1); (4 * MS, exec_at 50 1 1);
  (5 * MS, Vanish 0 0);
  (6 * MS, Acquire 1 2 200 1000); (7 * MS, exec_at 101 0 2); (7 * MS, exec_at 101 2 2); (8 * MS, Decide 2 1000 (900 * MS) 101);
  (9 * MS, Confirm 0 1 101 false); (10 * MS, Decide 1 1000 (900 * MS) 101) ].
Example confirm_uncompared : fences_of (plain (with_mistake ConfirmUncompared)) vanishing foreign_confirmation = Some [(100, 101); (200, 101)]
  /\ fences_of (plain correct) vanishing foreign_confirmation = no_fences. Proof. vm_compute. split; reflexivity. Qed.

(* … And a node confirms that has never granted the lock: such a confirmation must not be taken for a vote. *)
Definition confirmed_elsewhere := [(0, Acquire 0 1 100 1000); (1 * MS, exec_at 50 0 1); (2 * MS, Confirm 2 1 50 false)].
Example confirmed_without_a_grant : confirmers (plain (with_mistake ConfirmUncompared)) all_hold confirmed_elsewhere 1 = Some [(2%nat, false)]
  /\ confirmers (plain correct) all_hold confirmed_elsewhere 1 = Some []. Proof. vm_compute. split; reflexivity. Qed.

(* A confirmation counts where the node's own number is above the fence. *)
Definition above := [
  (0, Acquire 0 1 100 1000); (1 * MS, exec_at 101 1 1); (1 * MS, exec_at 50 2 1);  (* 100's fence is to be 101 *)
  (2 * MS, Vanish 2 0);
  (3 * MS, Acquire 1 2 200 1000); (4 * MS, exec_at 101 0 2); (4 * MS, exec_at 101 2 2); (5 * MS, Decide 2 1000 (900 * MS) 101);
  (6 * MS, Vanish 0 0);
  (7 * MS, exec_at 101 0 1);                                                       (* node 0 grants 100 late, and counts to 102 *)
  (8 * MS, Confirm 0 1 101 false); (9 * MS, Decide 1 1000 (900 * MS) 101) ].
Example confirm_above : fences_of (plain (with_mistake ConfirmAbove)) vanishing above = Some [(100, 101); (200, 101)]
  /\ fences_of (plain correct) vanishing above = no_fences. Proof. vm_compute. split; reflexivity. Qed.
