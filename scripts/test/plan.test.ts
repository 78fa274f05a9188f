import { describe, expect, it } from 'vitest'
import { canAptInstall } from '../servers/apt-install.mjs'
import type { Kind } from '../servers/kind.mjs'
import { planServer } from '../servers/plan.mjs'

/** A kind that neither runs nor is installed, unless the test configures it otherwise. */
function testKind(members: Partial<Kind> = {}): Kind {
  return {
    name: 'thing',
    variable: 'THING_URL',
    defaultPort: 4711,
    defaultUrl: 'thing://127.0.0.1:4711',
    debianPackage: 'thing-server',
    locate: () => undefined,
    probe: () => Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })),
    start: () => Promise.reject(new Error('a plan starts nothing')),
    ...members,
  }
}

describe('planServer()', () => {
  it('prefers the environment and asks no other server', async () => {
    const asked: string[] = []
    const kind = testKind({ probe: async (url) => void asked.push(url) })
    const plan = await planServer(kind, { THING_URL: 'thing://a, thing://b:1' })
    expect(plan).toMatchObject({ source: 'environment', url: 'thing://a, thing://b:1' })
    expect(asked).toEqual(['thing://a', 'thing://b:1'])
  })

  it('takes the other name of a variable where the first one is not set', async () => {
    const kind = testKind({ alias: 'OTHER_URL', probe: async () => {} })
    expect(await planServer(kind, { OTHER_URL: 'thing://b' })).toMatchObject({ source: 'environment', url: 'thing://b' })
    expect(await planServer(kind, { THING_URL: 'thing://a', OTHER_URL: 'thing://b' })).toMatchObject({ url: 'thing://a' })
  })

  it('does not look further when the server in the environment cannot be used', async () => {
    const plan = await planServer(testKind({ locate: () => '/bin/thing' }), { THING_URL: 'thing://me:secret@far' })
    expect(plan).toMatchObject({ source: 'missing', reason: expect.stringMatching(/^THING_URL points at far:4711,/) })
    expect(JSON.stringify(plan)).not.toContain('secret')
  })

  it('never repeats a value that is not a URL', async () => {
    const plan = await planServer(testKind(), { THING_URL: 'thing://me:secret@' })
    expect(plan).toMatchObject({ source: 'missing', reason: 'THING_URL: not a URL' })
  })

  it('takes what runs at the default port', async () => {
    const plan = await planServer(testKind({ probe: async () => {} }), { THING_URL: '' })
    expect(plan).toMatchObject({ source: 'running', url: 'thing://127.0.0.1:4711' })
  })

  it('passes over a server at the default port that cannot be used, and says so', async () => {
    const probe = () => Promise.reject(new Error('database "test" does not exist'))
    const plan = await planServer(testKind({ probe, locate: () => '/bin/thing' }), {})
    expect(plan).toMatchObject({
      source: 'installed',
      binary: '/bin/thing',
      note: '127.0.0.1:4711 answers but cannot be used: database "test" does not exist',
    })
  })

  it('starts an installed server when nothing answers', async () => {
    const plan = await planServer(testKind({ locate: () => '/bin/thing' }), {})
    expect(plan).toEqual(expect.objectContaining({ source: 'installed', binary: '/bin/thing' }))
    expect(plan.note).toBeUndefined()
  })

  it('says what prevents a start, instead of using another server', async () => {
    const obstacle = async ({ THING_HOME }: NodeJS.ProcessEnv) => (THING_HOME === '/nowhere' ? 'THING_HOME is /nowhere' : undefined)
    const kind = testKind({ obstacle, probe: async () => {}, locate: () => '/bin/thing' })
    expect(await planServer(kind, { THING_HOME: '/nowhere' })).toMatchObject({ source: 'missing', reason: 'THING_HOME is /nowhere' })
    expect(await planServer(kind, { THING_HOME: '/opt/thing' })).toMatchObject({ source: 'running' })
    // A server that a variable names needs no other.
    expect(await planServer(kind, { THING_HOME: '/nowhere', THING_URL: 'thing://a' })).toMatchObject({ source: 'environment' })
  })

  it('installs a missing server where it may, and otherwise says what to do', async () => {
    const plan = await planServer(testKind(), {})
    if (canAptInstall()) expect(plan.source).toBe('installable')
    else expect(plan).toMatchObject({ reason: expect.stringMatching(/install thing-server .* or set THING_URL$/) })
  })
})
