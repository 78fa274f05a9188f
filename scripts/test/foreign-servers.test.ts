import { describe, expect, it } from 'vitest'
import { tableOf } from '../compatibility-page.mjs'
import { foreignServers } from '../servers/foreign/catalogue.mjs'
import { archivesOf, mirrorOf } from '../servers/foreign/private-apt.mjs'
import { insideRoot } from '../servers/foreign/root.mjs'

describe('servers of other suites', () => {
  it('have ids that are unique and can be names of directories', () => {
    const ids = foreignServers.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^[a-z]+-[\d.]+$/)
  })

  it('come from the mirror that the machine uses for its own release', () => {
    const targets =
      'a-security main http://m.test/s/\na-updates main http://m.test/d/\na contrib http://m.test/c/\na main http://m.test/d/\n'
    expect([mirrorOf(targets, 'a'), mirrorOf(targets, 'b')]).toEqual(['http://m.test/d/', undefined])
  })

  it('are unpacked from the files that apt names, and nothing else of its output', () => {
    const uris =
      "Reading lists\n'http://m.test/p/a_1_all.deb' a_1_all.deb 39320 SHA256:12ab\n'http://m.test/p/b_1%3a2_amd64.deb' b_1%3a2_amd64.deb 1 MD5Sum:1\n"
    expect(archivesOf(uris)).toEqual(['a_1_all.deb', 'b_1%3a2_amd64.deb'])
  })

  it('run below the directory they were unpacked to, under the account, with paths as seen from there', () => {
    const command = {
      file: '/x/root/usr/sbin/s',
      args: ['--dir=/x/root/tmp/d', '-v'],
      env: { HOME: '/x/root/tmp/d', LD_LIBRARY_PATH: '/opt' },
    }
    const { file, args, env } = insideRoot('/x/root', '/x/root/tmp/d', { uid: 5, gid: 6 }, command)
    expect([file, ...args]).toEqual([
      ...['chroot', '--userspec=5:6', '/x/root', '/bin/sh', '-c', 'cd "$0" && exec "$@"', '/tmp/d'],
      ...['/usr/sbin/s', '--dir=/tmp/d', '-v'],
    ])
    expect(env).toMatchObject({ HOME: '/tmp/d', PATH: expect.stringContaining('/usr/bin') })
  })
})

describe('the table of tested servers', () => {
  const result = { origin: 'installed', suite: 'packages/nats/test', date: '2026-01-02', passed: 3, failed: 0, skipped: 0, failures: [] }

  it('has a row per server with its counts, the names of failed tests, and what could not be tested', () => {
    const text = tableOf([
      { ...result, product: 'NATS', version: '2.9.10' },
      { ...result, product: 'NATS', version: '2.15.1', passed: 2, failed: 1, failures: ['a.test.ts: keeps <order>'] },
      { ...result, product: 'MySQL', version: '', unavailable: 'no such package' },
    ])
    expect(text).toContain('| NATS | 2.9.10 | installed | `packages/nats/test` | 3 | 0 | 0 | 2026-01-02 |')
    expect(text).toContain('Failed on NATS 2.15.1:\n\n- a.test.ts: keeps \\<order\\>')
    expect(text).toContain('Could not be tested:\n\n- MySQL (installed, 2026-01-02): no such package')
    expect(text).not.toMatch(/\| MySQL/)
  })
})
