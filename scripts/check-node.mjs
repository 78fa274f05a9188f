// Exits with one clear line on an unsupported version of Node, before npm fails with many.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`Ackord needs Node 20.19 or newer; this is ${process.versions.node}.`)
  process.exit(1)
}
