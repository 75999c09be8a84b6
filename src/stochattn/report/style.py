"""How the page looks: system fonts, light and dark, one column on a phone."""

STYLE = """
:root{--paper:#fbfaf8;--card:#fff;--ink:#1d2329;--soft:#5a6570;--line:#e2dfd9;--new:#0b7285;--old:#8a6d3b;
--mark:#ffe3b3;--mark-strong:#ffc06b;--mark-ink:#4a2b00;--good:#2b7a3f;--fair:#a15c00;--bad:#b3261e;--track:#eceae5}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--card:#1d2227;--ink:#e6e3de;--soft:#a2abb4;--line:#333a41;
--new:#5fc3d6;--old:#d9b36c;--mark:#5c4415;--mark-strong:#8a611a;--mark-ink:#ffe9c4;--good:#74c687;--fair:#efb05e;
--bad:#ff8f86;--track:#2b3138}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;max-width:66rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 .4rem;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:3rem 0 .6rem;font-weight:650;padding-top:1.2rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.6rem 0 .5rem;font-weight:650}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--new)}
.soft,figcaption,.note{color:var(--soft)}
.note,figcaption{font-size:.875rem}
.eyebrow{color:var(--soft);font-size:.8125rem;letter-spacing:.06em;text-transform:uppercase;margin:0}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;font-size:.9375rem;margin:1.2rem 0 0}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.verdict{background:var(--card);border:1px solid var(--line);border-left:.4rem solid var(--tone);border-radius:.5rem;
padding:1rem 1.2rem 1.1rem;margin:1.3rem 0}
.verdict strong.headline{display:block;font-size:1.3rem;line-height:1.3;color:var(--tone)}
.verdict span{line-height:1.45}
.verdict ul{list-style:none;padding:0;margin:.9rem 0 0;display:grid;gap:.45rem}
.verdict li{display:grid;grid-template-columns:1.5rem 1fr;gap:.2rem;font-size:.9375rem;line-height:1.45}
.good{--tone:var(--good)}.fair{--tone:var(--fair)}.bad{--tone:var(--bad)}.open{--tone:var(--soft)}
.sign{color:var(--tone);font-weight:700}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;margin:1.2rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
.tile b{display:block;font-size:clamp(1.1rem,4.6vw,1.45rem);white-space:nowrap;
font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.tile span{display:block;font-size:.8125rem;line-height:1.4;color:var(--soft)}
dl{margin:1rem 0;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:0 2rem}
dl>div{display:grid;grid-template-columns:7.5rem 1fr;gap:.6rem;padding:.35rem 0;border-bottom:1px solid var(--line);
font-size:.9375rem}
dt{color:var(--soft)}dd{margin:0;min-width:0}
.wide{overflow-x:auto;max-width:100%;border:1px solid var(--line);border-radius:.5rem;background:var(--card);
margin:.8rem 0}
.wide:focus-visible{outline:2px solid var(--new)}
table{border-collapse:collapse;width:100%;font-size:.875rem;line-height:1.4;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.45rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:600;font-size:.8125rem;white-space:nowrap}
th{overflow-wrap:normal}.measures td:nth-child(1){min-width:9.5rem}
.measures td:nth-child(n+2){white-space:nowrap;width:6.5rem}
.measures td span{display:block;font-size:.8125rem}
.parts td:nth-child(1){min-width:6.5rem;max-width:14rem}
.parts td:nth-child(2){white-space:nowrap;min-width:8.5rem}
.parts td:nth-child(n+3){min-width:9rem;max-width:22rem}
.bar{display:inline-block;vertical-align:middle;width:5rem;height:.6rem;border-radius:.3rem;background:var(--track);
margin-right:.5rem;overflow:hidden}
.bar i{display:block;height:100%;background:var(--new);border-radius:.3rem}
figure{margin:1rem 0;min-width:0}
figure img{display:block;width:100%;height:auto;background:#fff;border:1px solid var(--line);border-radius:.5rem;
padding:.4rem}
figcaption{margin-top:.45rem;max-width:46rem}
.plots{display:grid;align-items:start;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:0 1.4rem}
figure.map{max-width:42rem}
code,pre,.residues{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem 1rem;overflow-x:auto;
font-size:.8125rem;white-space:pre-wrap;overflow-wrap:anywhere}
.key{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.35rem}
.key.new{background:var(--new)}.key.old{background:var(--old)}
.items{display:grid;gap:.8rem;margin:1rem 0;grid-template-columns:repeat(auto-fill,minmax(min(100%,29rem),1fr))}
.item{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem;min-width:0}
.item h4{margin:0 0 .45rem;font-size:.875rem;font-weight:400;color:var(--soft);line-height:1.4}
.item h4 b{color:var(--ink);font-weight:650}
.residues{display:flex;flex-wrap:wrap;gap:.4rem .55rem;font-size:.8125rem;line-height:1.3}
.residues span{display:block;white-space:pre}
.residues .at{color:var(--soft);font-size:.625rem}
.residues .new{color:var(--new)}.residues .old{color:var(--soft)}
mark{background:var(--mark);color:var(--mark-ink);border-radius:.15rem}
.residues mark{font-weight:700}
.pictures{grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr))}
.pictures .item{padding:.6rem}
.pictures .two{display:grid;grid-template-columns:1fr 1fr;gap:.4rem}
.pictures figure img{image-rendering:pixelated;border:0;border-radius:.2rem;padding:0}
.pictures figure{margin:0}.pictures figcaption{font-size:.75rem;line-height:1.35;margin-top:.3rem}
.cells td,.cells th{white-space:nowrap;max-width:16rem;overflow:hidden;text-overflow:ellipsis}
.cells tr.new td{border-bottom:0;padding-bottom:.1rem}
.cells tr.old td{color:var(--soft);padding-top:.1rem}
.cells td:first-child,.cells th:first-child{position:sticky;left:0;background:var(--card)}
.cells mark.far{background:var(--mark-strong)}
.cells mark{padding:0 .25rem;margin:0 -.25rem}
.paths{grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr))}
.paths svg{display:block;width:100%;height:auto}
.paths .axis{stroke:var(--line)}.paths .new{stroke:var(--new)}.paths .old{stroke:var(--old)}
.paths rect.new{fill:var(--new);stroke:none}.paths rect.old{fill:var(--old);stroke:none}
.paths text.new{fill:var(--new);stroke:none}.paths text.old{fill:var(--old);stroke:none}
.paths text{font-size:10px;font-family:inherit}
.movers{width:100%}.movers td{padding:.15rem .3rem;border:0;font-size:.8125rem;white-space:nowrap}
.movers td:nth-child(2){width:60%}
details{margin:.8rem 0}summary{cursor:pointer;color:var(--new);font-size:.9375rem}
footer{margin-top:3.5rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--soft);font-size:.875rem}
@media print{body{background:#fff}.item,.verdict,figure{break-inside:avoid}nav{display:none}}
"""
"""The style sheet."""
