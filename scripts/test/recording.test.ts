import { describe, expect, it } from 'vitest'
import { printedLines, recordedLines, recording } from '../site/recording.mjs'
import { Terminal } from '../site/terminal.mjs'

const printed = (...texts: readonly string[]) =>
  printedLines(
    texts.map((text) => ({ at: 0, text })),
    10,
  )

describe('the terminal of the recording', () => {
  it('wraps lines at its width', () => {
    expect(printed('0123456789abc\r\nnext')).toEqual(['0123456789', 'abc', 'next'])
  })

  it('follows moves of the cursor and erases', () => {
    expect(printed('one\r\ntwo\r\nthree\x1b[2A\x1b[1G\x1b[JONE')).toEqual(['ONE'])
    expect(printed('abcdef\x1b[3D\x1b[K!')).toEqual(['abc!'])
    expect(printed('50%\r60%')).toEqual(['60%'])
  })

  it('reads escape sequences that two chunks share, and ignores those that draw nothing', () => {
    expect(printed('\x1b[?25la\x1b[3', '2mb\x1b]0;title\x07c')).toEqual(['abc'])
  })

  it('keeps colours', () => {
    const terminal = new Terminal(40)
    terminal.write('\x1b[32mgood\x1b[39m and \x1b[1mbold\x1b[22m\x1b[90m dim\x1b[0m')
    expect(terminal.lines()).toEqual([
      [
        { text: 'good ', style: 'green' },
        { text: 'and ', style: '' },
        { text: 'bold ', style: 'bold' },
        { text: 'dim', style: 'dim' },
      ],
    ])
  })
})

describe('the recording', () => {
  const chunks = [
    { at: 100, text: 'one <step>\r\n' },
    { at: 900, text: '10%' },
    { at: 1900, text: '\r\x1b[Kdone' },
    { at: 60_000, text: '\r\nthe end' },
  ]
  const svg = recording(chunks, { prompt: 'make it', columns: 40, title: 'A run', description: 'What happens.' })

  it('shows the last frame where nothing moves', () => {
    expect(recordedLines(svg)).toEqual(['$ make it', 'one <step>', 'done', 'the end'])
    expect(svg).toContain('.gone{visibility:hidden}@media (prefers-reduced-motion:no-preference){')
  })

  it('shows lines that were replaced for as long as they were there', () => {
    expect(svg).toMatch(/<text class="gone a\d+"[^>]*>10%<\/text>/)
  })

  it('leaves out lines that were replaced at once', () => {
    const brief = [...chunks, { at: 61_000, text: '\r\nbrief' }, { at: 61_130, text: '\r\x1b[K' }, { at: 61_130, text: 'last' }]
    const keyframes = [...recording(brief, { prompt: '', columns: 40, title: '', description: '' }).matchAll(/@keyframes \S+?{(.*)}$/gm)]
    expect(keyframes.length).toBeGreaterThan(3)
    for (const [, steps = ''] of keyframes) {
      const times = [...steps.matchAll(/([\d.]+%)/g)].map(([time]) => time)
      expect(new Set(times).size, steps).toBe(times.length)
    }
  })

  it('cuts long pauses', () => {
    // 100 + 800 + 1,000 + the longest pause, 1,200, and 6,000 for the end.
    expect(svg).toContain('animation:9.1s step-end infinite')
  })
})
