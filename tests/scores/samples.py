"""Small tables and one line of each layout, as the organisers' own pages show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lightning_sasv.trials import Scores

LINES = {
    "scores": "26.8012746144977\n-0.84678996788404\n",
    "asvspoof2019-cm-full": (
        "LA_0039 LA_E_2834763 - A11 spoof -1.236225\nLA_0014 LA_E_5849185 - - bonafide 1.5\n"
    ),
    "asvspoof2019-asv-full": (
        "LA_0039 LA_E_1 - A11 spoof -1.25\nLA_0014 LA_E_2 - - target 1.5\n"
        "LA_0015 LA_E_2 - - nontarget -1.5\n"
    ),
    "cm-gender": (
        "LA_D_1047731 LA_0069 A00 bonafide 0.9999520778656006 female\n"
        "LA_D_1047732 LA_0070 A05 spoof -0.5 male\n"
    ),
    "cm-key-score": "0 spoof 0.9961183667182922\n4 bonafide -0.9643643498420715\n",
    "asv-pairs": "PAIR_1 target 0.641889\nPAIR_2 nontarget -0.25\nPAIR_3 spoof 0.125\n",
    "cm-score-key": "LA_D_1047731 0.9996744990348816 bonafide\nLA_D_2 -0.5 spoof\n",
    "asvspoof5-track2": (
        "D_0461 D_0000000190 M bonafide target\nD_0062 D_0000000904 F bonafide nontarget\n"
        "D_0062 D_0000000001 F A11 spoof\n"
    ),
    "trials": "SPK_00001373_000 UTT_00020955\nSPK_00001373_000 UTT_00020956\n",
    "wildspoof": "SPK_00999977_000\tUTT_00897492\t0.258688\nSPK_1_042\tUTT_2\t-1.5\n",
    "spoofceleb-metadata": (
        "file,speaker,attack\na00/id1/x-001.flac,id1,a00\na06/id1/y-002.flac,id1,a06\n"
    ),
    "voxceleb-scores": "1 id1/x.wav id1/y.wav 0.745\n0 id1/x.wav id2/y.wav -0.5\n",
    "espnet": "id1/a/1*id1/b/8 -0.9235963821411133 1\nid1/a/1*id2/c/3 -1.25 0\n",
    "nist-sre": "modelid\tsegmentid\tside\tLLR\nm1\ts1.sph\ta\t0.75\nm1\ts2.sph\ta\t-0.5\n",
    "bob-pad": (
        "claimed_id,test_label,is_bonafide,attack_type,score\nx0,x0_1,True,,1.294497\n"
        "x1,x1_2,False,pai1,-0.5\n"
    ),
    "bob-measure": "-1 -0.33446709030362043\n1 0.5\n-1 -0.25\n1 1.5\n",
    "sasv2022": "LA_0015 LA_E_8147880 bonafide target 0.97\nLA_0015 LA_E_8147881 A07 spoof -1.5\n",
    "sasv2022-protocol": "LA_0015 LA_E_1103494 bonafide target\nLA_0015 LA_E_2 A19 spoof\n",
    "a-dcf": "LA_0007 LA_E_7417804 -2.30 spoof\nLA_0007 LA_E_7417805 1.25 target\n",
    "wespeaker": "spk1 utt1 0.51234 target\nspk1 utt2 -0.01234 nontarget\n",
    "wespeaker-asnorm": "a b 5.1 target 1.5 1.25 0.1 0.2\na c -5.0 nontarget 1.5 1.75 0.1 0.3\n",
    "asvspoof2019-cm-protocol": "LA_0039 LA_E_2834763 - A11 spoof\nPA_0079 PA_T_1 aaa - bonafide\n",
    "asvspoof2019-cm": "LA_E_2834763 A11 spoof -3.1\nLA_E_5849185 - bonafide 4.25\n",
    "asvspoof2019-asv": "bonafide target 12.3\nbonafide nontarget -7.5\nA07 spoof 3.25\n",
    "asvspoof2021-cm": "LA_E_9332881 -4.72\nLA_E_6866159 0.5\n",
    "asvspoof2021-asv": "LA_0001 LA_E_9332881 -4.72\nLA_0002 LA_E_6866159 0.5\n",
    "asvspoof2021-la-key": (
        "LA_0009 LA_E_9332881 alaw ita_tx A07 spoof notrim eval\n"
        "LA_0020 LA_E_6866159 none loc_tx bonafide bonafide notrim progress\n"
    ),
    "asvspoof2021-la": (
        "LA_0009 LA_E_9332881 alaw ita_tx A07 spoof notrim eval -1.5\n"
        "LA_0020 LA_E_6866159 none loc_tx bonafide target notrim eval 2.5\n"
    ),
    "asvspoof2021-pa-key": (
        "PA_0010 PA_E_1000001 R3 M3 d4 r1 m1 s4 c4 spoof notrim eval\n"
        "PA_0010 PA_E_1000002 R3 M3 d4 r1 m1 s4 c4 bonafide notrim eval\n"
    ),
    "asvspoof2021-df-key": (
        "LA_0023 DF_E_2000011 nocodec asvspoof A14 spoof notrim progress "
        "traditional_vocoder - - - -\n"
        "TEF2 DF_E_2000013 low_m4a vcc2020 bonafide bonafide notrim eval bonafide - - - -\n"
        "TEF2 DF_E_2 low_m4a vcc2020 Task1-team20 spoof notrim eval unknown Task1 team20 FF E\n"
    ),
    "asvspoof5-t1": "filename\tcm-score\nE_000001\t0.01\nE_000002\t-2.5\n",
    "asvspoof5-t1-key": "filename\tcm-label\nE_000001\tbonafide\nE_000002\tspoof\n",
    "asvspoof5-t2": (
        "spk\tfilename\tcm-score\tasv-score\tsasv-score\nE_0101\tE_000001\t0.01\t0.01\t0.04\n"
    ),
    "asvspoof5-t2-key": (
        "spk\tfilename\tcm-label\tasv-label\nE_0101\tE_000001\tbonafide\ttarget\n"
        "E_0101\tE_000002\tspoof\tspoof\n"
    ),
    "asvspoof5-key": (
        "tar_spk_anon trial_anon asv-label cm-label attack_anon codec track_2_tag\n"
        "E_0101 E_000001 target bonafide bonafide - normal\n"
        "E_0101 E_000003 spoof spoof A17 C01 dummy\n"
        "E_0101 E_000002 spoof spoof A17 C01 normal\n"
    ),
    "asvspoof5-trials": "D_0461 D_0000000190 target\nD_0461 D_0000000191 spoof\n",
    "asvspoof5-protocol": "T_4850 T_0000000000 F - A05 spoof\nT_4850 T_1 F - bonafide bonafide\n",
    "asvspoof5-metadata": (
        "T_4850 T_0000000000 F - - - AC3 A05 spoof -\n"
        "E_1607 E_0009538969 M C05 2 E_0001573302 - bonafide bonafide -\n"
    ),
    "asvspoof5-fusion": "asv_score,cm_score,sasv_label\n0.5,1.5,1\n0.25,1.0,2\n0.75,-3.0,0\n",
    "voxceleb": (
        "1 id10270/x/00001.wav id10270/y/00002.wav\n0 id10270/x/00001.wav id10300/y/00003.wav\n"
    ),
    "voxsrc": "0.7512 id10270/x/00001.wav id10270/y/00002.wav\n-0.05 id1/x.wav id2/y.wav\n",
    "speechbrain": "id1/x.wav id1/y.wav 1 0.750000\nid1/x.wav id2/y.wav 0 -0.050000\n",
    "bob4": "c1 c1 probe_1 1.5\nc1 c2 probe_2 -0.5\n",
    "bob5": "c1 m1 c1 probe_1 1.5\nc1 m1 c2 probe_2 -0.5\n",
    "bob-vuln": (
        "bio_ref_subject_id,probe_subject_id,probe_key,probe_attack_type,score\n"
        "c1,c1,p1,,1.5\nc1,c2,p2,,-0.5\nc1,c1,p3,replay,0.25\n"
    ),
    "csv": (
        "speaker,utterance,attack,label,asv_score,cm_score\nLA_0015,LA_E_1,-,target,0.75,8.5\n"
        "LA_0015,LA_E_2,A07,spoof,0.5,-3.25\n"
    ),
}


def toy_scores(trials: int = 600, seed: int = 0, speakers: int = 6) -> Scores:
    """Labelled scores that are neither perfect nor hopeless."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(trials) % 3)
    spoof, target, nontarget = (label == code for code in range(3))
    attack = np.where(spoof, rng.choice(["A07", "A08"], trials), "-")
    return Scores(
        asv=rng.normal(0.7 * target + 0.5 * spoof + 0.1 * nontarget, 0.2),
        cm=rng.normal(6.0 * ~spoof - 5.0 * spoof, 4.0),
        label=label,
        speaker=np.array([f"S{n}" for n in rng.integers(0, speakers, trials)]),
        utterance=np.array([f"U{n:05d}" for n in range(trials)]),
        attack=attack,
    )


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path
