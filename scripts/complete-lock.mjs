// @ts-check
// If a registry lacks the binaries of a tool for other platforms, npm omits them from package-lock.json, and then `npm ci`
// fails everywhere: here because the lock file is incomplete, elsewhere because the binary of that platform is missing. This script adds the
// missing entries, by name and exact version, without a checksum. Run it after each change of dependencies: `npm install && node scripts/complete-lock.mjs`.
import { readFileSync, writeFileSync } from 'node:fs'

const systems = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32']
const processors = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64']

/** @type {{ packages: Record<string, { version?: string, dev?: boolean, optionalDependencies?: Record<string, string> }> }} */
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const paths = Object.keys(lock.packages)
let added = 0

for (const { optionalDependencies = {} } of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    if (paths.some((path) => path.endsWith(`node_modules/${name}`))) continue
    if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Error(`${name} has the version '${version}'; only an exact one can be added.`)
    Object.assign(lock.packages, { [`node_modules/${name}`]: { version, ...platformOf(name), dev: true, optional: true } })
    added += 1
  }
}

/** The platform, from the name of such a package: `@scope/binding-linux-arm64-musl`. @param {string} name */
function platformOf(name) {
  const words = name.split(/[/-]/)
  const cpu = processors.filter((processor) => words.includes(processor))
  const os = systems.filter((system) => words.includes(system))
  if (cpu.length !== 1) throw new Error(`Cannot determine the platform of ${name}.`)
  // Windows packages may contain `gnu` too, where it names the compiler.
  const libc = !os.includes('linux') ? [] : name.includes('musl') ? ['musl'] : name.includes('gnu') ? ['glibc'] : []
  return { cpu, ...(os.length > 0 ? { os } : {}), ...(libc.length > 0 ? { libc } : {}) }
}

lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([one], [other]) => (one < other ? -1 : 1)))
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`)
console.log(`${added} added.`)
