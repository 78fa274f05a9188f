/** All packages of Ackord are released together. A test compares it with package.json: bundled code has no package.json to read. */
export const version = '0.1.0'
