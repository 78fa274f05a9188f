export const consumer = 'orders'
export const batchSize = 5
