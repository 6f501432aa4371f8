-- every one-letter name is a global here, so locals need longer names than they had
a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26
A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q,R,S,T,U,V,W,X,Y,Z,_ = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27
do local a,b,c=a,b,c print(a,b,c,d) local c,b,a=a,b,c print(a,b,c,d) end
local function xx(a,b)return a,b end
local function yy(b,a)return a,b end
print(xx(z,y)) print(yy(z,y))
